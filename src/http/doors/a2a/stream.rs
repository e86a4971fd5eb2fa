//! `SendStreamingMessage` and `SubscribeToTask`: the task as it stands, then what happens to it.
//!
//! The first event is the whole task as of a place in its thread's log; what follows is told from exactly there. So there is
//! no gap, whenever somebody comes, and to whichever replica.

use std::collections::VecDeque;
use std::pin::Pin;

use axum::response::Response;
use futures_util::stream::{self, Stream, StreamExt};
use serde_json::Value;

use super::caller::Asker;
use super::refusal::Refusal;
use super::send::{self, Accepted};
use super::task::{self, Show};
use crate::a2a::fault::{Error, Fault};
use crate::a2a::task_events::TaskEvents;
use crate::a2a::types::{SendRequest, StreamEvent, Task, TaskQuery, TaskState};
use crate::a2a::view;
use crate::domain::caller::Scope;
use crate::domain::fault::{self, Code};
use crate::domain::hitl::{AskedQuestion, Suspension};
use crate::http::doors::sse::{data, last_words};
use crate::http::events::sse;
use crate::live::{Encoded, EncodedKind};
use crate::service::a2a::tasks;
use crate::service::a2a::tasks::RunSnapshot;
use crate::service::feed::{self, After, EarlySubscription, Feed, FeedAsk};

/// Events as JSON of the caller's version; their end is the end of the stream. A refusal is the last of them.
pub(super) type Events = Pin<Box<dyn Stream<Item = Result<Value, Refusal>> + Send>>;

const STOPPING: &str = "The server is stopping; subscribe to the task again, which goes on.";

/// Ends when the task is over or asks the client.
pub(super) async fn send(asker: &Asker, request: SendRequest) -> Result<Events, Refusal> {
    let show = Show { history: request.configuration.history_length, artifacts: true };
    let Accepted { task: id, complaint, early, is_new } = send::accept(asker, &request, true).await?;
    let (snapshot, seq) = tasks::get_with_seq(&asker.app.service, &asker.caller, &id).await?;
    let telling = match (complaint, early) {
        (Some(complaint), _) => Telling::over(task::complain(task::task(&snapshot, show), &complaint)),
        (None, Some(early)) if is_new => {
            // As it was accepted, whatever has happened since: that is told next.
            let (task, after) = (view::accepted(&snapshot.run, &snapshot.messages), early.after());
            Telling::from(asker, &snapshot, task, Vec::new(), Some(early), after, true).await?
        }
        (None, early) => {
            let task = task::task(&snapshot, show);
            if ends(task.status.state) {
                return Ok(told(asker, Telling::over(task)));
            }
            Telling::from(asker, &snapshot, task, open(&snapshot), early, After::Seq(seq), true).await?
        }
    };
    Ok(told(asker, telling))
}

/// Stays over every question, until the task is over.
pub(super) async fn subscribe(asker: &Asker, query: TaskQuery) -> Result<Events, Refusal> {
    asker.may(Scope::Read)?;
    asker.check_tenant(query.tenant.as_deref())?;
    let (snapshot, seq) = tasks::get_with_seq(&asker.app.service, &asker.caller, &query.id.as_str().into()).await?;
    if snapshot.run.status.is_terminal() {
        let detail = "The task is over; nothing happens to it any more. Get it.";
        return Err(Fault::new(Error::UnsupportedOperation, detail).into());
    }
    let task = task::task(&snapshot, Show { history: query.history_length, artifacts: true });
    let telling = Telling::from(asker, &snapshot, task, open(&snapshot), None, After::Seq(seq), false).await?;
    Ok(told(asker, telling))
}

fn open(snapshot: &RunSnapshot) -> Vec<AskedQuestion> {
    snapshot.open.iter().map(Suspension::asked).collect()
}

fn ends(state: TaskState) -> bool {
    state.is_terminal() || state == TaskState::InputRequired
}

fn told(asker: &Asker, telling: Telling) -> Events {
    let version = asker.version;
    Box::pin(stream::unfold(telling, move |mut telling| async move {
        let event = telling.next().await?;
        Some((event.map(|event| version.event(&event)), telling))
    }))
}

/// A task being told.
struct Telling {
    ready: VecDeque<StreamEvent>,
    /// `None`: there is nothing more to tell.
    live: Option<(Feed, TaskEvents)>,
    /// Why it is not told to its end.
    broken: Option<Refusal>,
    ends_asking: bool,
}

impl Telling {
    fn over(task: Task) -> Self {
        Self { ready: [StreamEvent::Task(task)].into(), live: None, broken: None, ends_asking: true }
    }

    /// Tells `task`, and then what happens after `after`: from here on live, so that all who listen hear the same.
    async fn from(
        asker: &Asker,
        snapshot: &RunSnapshot,
        task: Task,
        open: Vec<AskedQuestion>,
        early: Option<EarlySubscription>,
        after: After,
        ends_asking: bool,
    ) -> Result<Self, Refusal> {
        let (run, thread) = (&snapshot.run.run_id, &snapshot.run.thread_id);
        let task_events = TaskEvents::new(run.as_str(), thread.as_str(), task.status.state, open);
        let task_events = task_events.linked(snapshot.urls.clone());
        let types = TaskEvents::HEARD.to_vec();
        let ask = FeedAsk { after, types, tokens: true, until: Some(run.clone()), ends_suspended: false };
        let service = &asker.app.service;
        let feed = match early {
            Some(early) => feed::continued(service, &asker.caller, thread, early, ask).await?,
            None => feed::open(service, &asker.caller, thread, ask).await?,
        };
        let live = Some((feed, task_events));
        let mut telling = Self { ready: [StreamEvent::Task(task)].into(), live, broken: None, ends_asking };
        while telling.hear().await.is_some_and(|kind| kind != EncodedKind::CaughtUp) {}
        Ok(telling)
    }

    /// The next frame, and what it means for the task; `None`: there is nothing more to hear.
    async fn hear(&mut self) -> Option<EncodedKind> {
        let (feed, task_events) = self.live.as_mut()?;
        let Some(frame) = feed.next().await else {
            self.breaks_off(Code::NotFound, "The task was erased.");
            return None;
        };
        if frame.kind == EncodedKind::Draining {
            self.breaks_off(Code::Draining, STOPPING);
            return None;
        }
        if frame.kind == EncodedKind::Gap {
            self.breaks_off(Code::TooManyRequests, "The events are read too slowly; subscribe to the task again.");
            return None;
        }
        self.ready.extend(heard(task_events, &frame));
        let state = task_events.state();
        if state.is_terminal() || (self.ends_asking && state == TaskState::InputRequired) {
            self.live = None;
        }
        Some(frame.kind.clone())
    }

    fn breaks_off(&mut self, code: Code, why: &str) {
        self.live = None;
        self.broken = Some(fault::Fault::new(code, why).into());
    }

    async fn next(&mut self) -> Option<Result<StreamEvent, Refusal>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if let Some(broken) = self.broken.take() {
                return Some(Err(broken));
            }
            self.live.as_ref()?;
            self.hear().await;
        }
    }
}

/// What a frame of the thread means for the task.
fn heard(task_events: &mut TaskEvents, frame: &Encoded) -> Vec<StreamEvent> {
    if let Some(token) = frame.token() {
        return task_events.token(&token).into_iter().collect();
    }
    let Some(seen) = frame.told() else { return Vec::new() };
    match seen.fact() {
        Ok(fact) => task_events.apply(&seen.run_id, seen.timestamp, fact),
        Err(error) => {
            tracing::warn!(threadId = %seen.thread_id, %error, "a task's events are told without it");
            Vec::new()
        }
    }
}

/// The answer: each event, and a refusal at its end, as the binding says it.
pub(super) fn streamed(
    asker: &Asker,
    events: Events,
    said: impl Fn(Result<Value, Refusal>) -> Value + Send + 'static,
) -> Response {
    let last_words = last_words(STOPPING, |fault| data(&said(Err(fault.clone().into()))));
    let events = events.map(move |event| data(&said(event)));
    sse::written(&asker.app, asker.pass.clone(), Box::pin(events), last_words)
}
