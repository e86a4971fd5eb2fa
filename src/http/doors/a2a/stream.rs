//! `SendStreamingMessage` and `SubscribeToTask`: the current task, then its changes.
//!
//! The first event is the whole task as of one `seq` of its thread's log, and the changes continue from exactly that
//! `seq`. So there is no gap, whenever a client connects and to whichever replica.

use std::collections::VecDeque;
use std::pin::Pin;

use axum::response::Response;
use futures_util::stream::{self, Stream, StreamExt};
use serde_json::Value;

use super::caller::A2aRequest;
use super::error::A2aError;
use super::send::{self, AcceptedMessage, ReplyForm};
use super::task::{self, TaskDetail};
use crate::a2a::fault::{Error, Fault};
use crate::a2a::task_events::TaskEvents;
use crate::a2a::types::{SendRequest, StreamEvent, Task, TaskQuery, TaskState};
use crate::a2a::view;
use crate::domain::fault::{self, Code};
use crate::domain::hitl::{AskedQuestion, Suspension};
use crate::http::doors::sse::{closing_events, data};
use crate::http::events::sse;
use crate::live::{Encoded, EncodedKind};
use crate::service::a2a::tasks;
use crate::service::a2a::tasks::RunSnapshot;
use crate::service::feed::{self, After, EarlySubscription, Feed, FeedAsk};

/// Events as JSON of the caller's version. The stream of events ends with the response. An error is always the last
/// event.
pub(super) type TaskEventStream = Pin<Box<dyn Stream<Item = Result<Value, A2aError>> + Send>>;

const STOPPING: &str = "The server is stopping; subscribe to the task again, which goes on.";

/// Streams until the task ends or asks the client something.
pub(super) async fn send(ctx: &A2aRequest, request: SendRequest) -> Result<TaskEventStream, A2aError> {
    let detail = TaskDetail { history: request.configuration.history_length, artifacts: true };
    let AcceptedMessage { task: id, complaint, early, is_new } =
        send::accept(ctx, &request, ReplyForm::Streamed).await?;
    let (snapshot, seq) = tasks::get_with_seq(&ctx.app.service, &ctx.caller, &id).await?;
    let task_stream = match (complaint, early) {
        (Some(complaint), _) => TaskStream::finished(task::with_complaint(task::task(&snapshot, detail), &complaint)),
        (None, Some(early)) if is_new => {
            // The first event shows the task as it was accepted. Everything that has happened since follows.
            let (task, after) = (view::accepted(&snapshot.run, &snapshot.messages), early.after());
            let task = task::trimmed(task, detail);
            TaskStream::open(ctx, &snapshot, task, Vec::new(), Some(early), after, true).await?
        }
        (None, early) => {
            let task = task::task(&snapshot, detail);
            if ends_stream(task.status.state) {
                return Ok(into_events(ctx, TaskStream::finished(task)));
            }
            TaskStream::open(ctx, &snapshot, task, open_questions(&snapshot), early, After::Seq(seq), true).await?
        }
    };
    Ok(into_events(ctx, task_stream))
}

/// Streams until the task ends, also across questions.
pub(super) async fn subscribe(ctx: &A2aRequest, query: TaskQuery) -> Result<TaskEventStream, A2aError> {
    ctx.check_tenant(query.tenant.as_deref())?;
    let (snapshot, seq) = tasks::get_with_seq(&ctx.app.service, &ctx.caller, &query.id.as_str().into()).await?;
    if snapshot.run.status.is_terminal() {
        let detail = "The task is over; nothing happens to it any more. Get it.";
        return Err(Fault::new(Error::UnsupportedOperation, detail).into());
    }
    let task = task::task(&snapshot, TaskDetail { history: query.history_length, artifacts: true });
    let task_stream =
        TaskStream::open(ctx, &snapshot, task, open_questions(&snapshot), None, After::Seq(seq), false).await?;
    Ok(into_events(ctx, task_stream))
}

fn open_questions(snapshot: &RunSnapshot) -> Vec<AskedQuestion> {
    snapshot.open.iter().map(Suspension::asked).collect()
}

fn ends_stream(state: TaskState) -> bool {
    state.is_terminal() || state == TaskState::InputRequired
}

fn into_events(ctx: &A2aRequest, task_stream: TaskStream) -> TaskEventStream {
    let version = ctx.version;
    Box::pin(stream::unfold(task_stream, move |mut task_stream| async move {
        let event = task_stream.next().await?;
        let is_last = task_stream.is_over();
        let write = |event| if is_last { version.last_event(&event) } else { version.event(&event) };
        Some((event.map(write), task_stream))
    }))
}

/// The stream of a task's events.
struct TaskStream {
    ready: VecDeque<StreamEvent>,
    /// `None` if no more events follow.
    live: Option<(Feed, TaskEvents)>,
    /// The error that ends the stream early.
    failure: Option<A2aError>,
    ends_on_question: bool,
}

impl TaskStream {
    fn finished(task: Task) -> Self {
        Self { ready: [StreamEvent::Task(task)].into(), live: None, failure: None, ends_on_question: true }
    }

    /// Sends `task`, then its changes after `after`. Reads up to the present before it returns, so that all subscribers
    /// get the same live events.
    async fn open(
        ctx: &A2aRequest,
        snapshot: &RunSnapshot,
        task: Task,
        open: Vec<AskedQuestion>,
        early: Option<EarlySubscription>,
        after: After,
        ends_on_question: bool,
    ) -> Result<Self, A2aError> {
        let (run, thread) = (&snapshot.run.run_id, &snapshot.run.thread_id);
        let task_events = TaskEvents::new(run.as_str(), thread.as_str(), task.status.state, open);
        let task_events = task_events.linked(snapshot.urls.clone());
        let types = TaskEvents::OBSERVATION_TYPES.to_vec();
        let ask = FeedAsk { after, types, tokens: true, until: Some(run.clone()), ends_suspended: false };
        let service = &ctx.app.service;
        let feed = match early {
            Some(early) => feed::continued(service, &ctx.caller, thread, early, ask).await?,
            None => feed::open(service, &ctx.caller, thread, ask).await?,
        };
        let live = Some((feed, task_events));
        let mut task_stream = Self { ready: [StreamEvent::Task(task)].into(), live, failure: None, ends_on_question };
        while task_stream.read_frame().await {}
        Ok(task_stream)
    }

    /// Reads the next frame and queues its events. Returns whether frames from before the subscription may follow.
    async fn read_frame(&mut self) -> bool {
        let Some((feed, task_events)) = &mut self.live else { return false };
        let Some(frame) = feed.next().await else {
            self.fail(Code::NotFound, "The task was erased.");
            return false;
        };
        let cut = match frame.kind {
            EncodedKind::Draining => Some((Code::Draining, STOPPING)),
            EncodedKind::Gap => {
                Some((Code::TooManyRequests, "The events are read too slowly; subscribe to the task again."))
            }
            EncodedKind::LogUnreadable => {
                Some((Code::StoreUnavailable, "The events cannot be read now; subscribe to the task again."))
            }
            EncodedKind::Observation { .. }
            | EncodedKind::Token { .. }
            | EncodedKind::Run { .. }
            | EncodedKind::ToolStarted { .. }
            | EncodedKind::CaughtUp
            | EncodedKind::Thread
            | EncodedKind::ThreadDeleted
            | EncodedKind::Suspension => None,
        };
        if let Some((code, why)) = cut {
            self.fail(code, why);
            return false;
        }
        self.ready.extend(events_of_frame(task_events, &frame));
        let state = task_events.state();
        if state.is_terminal() || (self.ends_on_question && state == TaskState::InputRequired) {
            self.live = None;
        }
        self.live.is_some() && frame.kind != EncodedKind::CaughtUp
    }

    fn fail(&mut self, code: Code, why: &str) {
        self.live = None;
        self.failure = Some(fault::Fault::new(code, why).into());
    }

    /// Whether nothing follows.
    fn is_over(&self) -> bool {
        self.ready.is_empty() && self.live.is_none() && self.failure.is_none()
    }

    async fn next(&mut self) -> Option<Result<StreamEvent, A2aError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if let Some(failure) = self.failure.take() {
                return Some(Err(failure));
            }
            self.live.as_ref()?;
            self.read_frame().await;
        }
    }
}

/// The task events of one frame.
fn events_of_frame(task_events: &mut TaskEvents, frame: &Encoded) -> Vec<StreamEvent> {
    if let Some(token) = frame.token() {
        return task_events.token(&token).into_iter().collect();
    }
    let Some(seen) = frame.as_observation() else { return Vec::new() };
    match seen.fact() {
        Ok(fact) => task_events.apply(&seen.run_id, seen.timestamp, fact),
        Err(error) => {
            tracing::warn!(threadId = %seen.thread_id, %error, "an observation cannot be decoded; the task's stream skips it");
            Vec::new()
        }
    }
}

/// Writes the events as a response, each in the form of the binding, with an error as the last one if the stream is
/// cut.
pub(super) fn event_response(
    ctx: &A2aRequest,
    events: TaskEventStream,
    write: impl Fn(Result<Value, A2aError>) -> Value + Send + 'static,
) -> Response {
    let closing_events = closing_events(STOPPING, |fault| data(&write(Err(fault.clone().into()))));
    let events = events.map(move |event| data(&write(event)));
    sse::event_response(&ctx.app, ctx.preferences.pass.clone(), Box::pin(events), closing_events)
}
