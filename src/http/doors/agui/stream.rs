//! The answer: events as they come.

use std::collections::VecDeque;

use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};

use super::accept::{Asker, Follow};
use super::conversation;
use super::cursor::Segment;
use super::events::{Origin, run_error};
use super::numbered::{Event, Numbered};
use super::request::ClientRun;
use crate::domain::Millis;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::run::RunStatus;
use crate::http::doors::answer_headers::name_run;
use crate::http::doors::sse;
use crate::http::doors::told::Told;
use crate::http::events::sse::{LastWords, written};
use crate::live::{Encoded, EncodedKind};
use crate::service::feed::{self, After, Feed, FeedAsk};

const STOPPING: &str = "The server is stopping; connect again, the run goes on.";

pub(super) fn started(client: &ClientRun) -> Value {
    let mut started = json!({ "type": "RUN_STARTED", "threadId": client.thread, "runId": client.id });
    if client.is_one {
        started["protocolVersion"] = json!("1.0");
    }
    started
}

/// These events, and nothing more.
pub(super) fn few(asker: Asker, events: Vec<Value>) -> Response {
    let events = stream::iter(events.into_iter().map(|event| sse::data(&event)));
    written(&asker.app, asker.preferences.pass, Box::pin(events), LastWords::default())
}

/// How a stream ends that cannot be told to its end.
fn error(fault: &Fault) -> Value {
    run_error(fault.code.as_str(), &fault.detail, fault.code.retryable())
}

/// Why nothing was done.
pub(super) fn refused(asker: Asker, client: &ClientRun, fault: &Fault) -> Response {
    few(asker, vec![started(client), error(fault)])
}

/// A run; `conversation` stands behind the very first event.
pub(super) async fn told(
    asker: Asker,
    client: ClientRun,
    run: RunId,
    follow: Follow,
    conversation: Option<Value>,
) -> Result<Response, Fault> {
    let (thread, pass) = (client.thread.clone(), asker.preferences.pass.clone());
    let app = asker.app.clone();
    let telling = Telling::of(asker, client, &run, follow, conversation).await?;
    let events = stream::unfold(telling, |mut telling| async { telling.next().await.map(|bytes| (bytes, telling)) });
    let last_words = sse::last_words(STOPPING, |fault| sse::data(&error(fault)));
    let mut response = written(&app, pass, Box::pin(events), last_words);
    name_run(response.headers_mut(), &thread, &run);
    Ok(response)
}

/// A run being told.
struct Telling {
    asker: Asker,
    thread: ThreadId,
    events: Numbered,
    feed: Feed,
    ready: VecDeque<Event>,
}

/// Of an observation, what events say of where they come from.
#[derive(Deserialize)]
struct Head {
    timestamp: Millis,
}

impl Telling {
    async fn of(
        asker: Asker,
        client: ClientRun,
        run: &RunId,
        follow: Follow,
        conversation: Option<Value>,
    ) -> Result<Self, Fault> {
        let (service, caller, thread) = (&asker.app.service, &asker.caller, client.thread.clone());
        let ask =
            |after| FeedAsk { after, types: Vec::new(), tokens: true, until: Some(run.clone()), ends_suspended: true };
        let segment = |start: After, settled: After, answers: u32| {
            let (run, is_connected) = (run.clone(), conversation.is_some());
            Segment { run, start: seq_of(start), settled: seq_of(settled), answers, is_connected }
        };
        let before = || feed::before(service, caller, &thread, run);
        let is_resumed = matches!(follow, Follow::Behind(..));
        let (mut events, feed) = match follow {
            Follow::Live(early) => {
                let (start, ask) = (early.after(), ask(early.after()));
                let feed = feed::continued(service, caller, &thread, early, ask).await?;
                (Numbered::new(client, segment(start, start, 0)), feed)
            }
            Follow::Whole => {
                let now = feed::subscribe(service, caller, &thread).await?.after();
                let start = before().await?;
                let feed = feed::open(service, caller, &thread, ask(start)).await?;
                (Numbered::new(client, segment(start, now, 0)), feed)
            }
            Follow::Behind(after, answers) => {
                let feed = feed::open(service, caller, &thread, ask(before().await?)).await?;
                (Numbered::new(client, segment(after, after, answers)), feed)
            }
            Follow::Cut(cursor) => {
                let feed = feed::open(service, caller, &thread, ask(before().await?)).await?;
                (Numbered::behind(client, cursor), feed)
            }
        };
        // Who goes on behind an answer needs what happened before it first.
        let begins = events.segment().is_connected || !(is_resumed || events.is_cut());
        let ready = if begins { events.begin(conversation).into() } else { VecDeque::new() };
        Ok(Self { asker, thread, events, feed: feed.with_joined_tokens(), ready })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(Event { id, data }) = self.ready.pop_front() {
                return Some(sse::numbered(id.as_deref(), &data));
            }
            if self.events.is_over() {
                return None;
            }
            let events = match self.feed.next().await {
                Some(frame) => self.hear(&frame).await,
                None => self.events.interrupted(Code::NotFound.as_str(), "The thread was erased."),
            };
            self.ready.extend(events);
        }
    }

    async fn hear(&mut self, frame: &Encoded) -> Vec<Event> {
        match Told::of(frame) {
            Told::Observation(told) if self.events.stood_before(&told) => self.suspended().await,
            Told::Observation(told) => self.events.observation(&origin(frame), &told),
            Told::Token(token) => self.events.token(&token),
            Told::Stands(run, RunStatus::Suspended) if run == self.events.segment().run => self.suspended().await,
            Told::Stands(..) | Told::CaughtUp | Told::Other => Vec::new(),
            Told::Draining => self.events.interrupted(Code::Draining.as_str(), STOPPING),
            Told::Gap => self.events.interrupted("gap", "The client reads too slowly; connect again."),
        }
    }

    /// The run asks, and so the client is shown all that it asks about.
    async fn suspended(&mut self) -> Vec<Event> {
        let Asker { app, caller, .. } = &self.asker;
        match conversation::shown(app, caller, &self.thread).await {
            Ok(messages) => self.events.suspended(messages),
            Err(fault) => self.events.interrupted(fault.code.as_str(), &fault.detail),
        }
    }
}

fn seq_of(after: After) -> i64 {
    match after {
        After::Seq(seq) => seq,
        After::Latest => i64::MAX,
    }
}

fn origin(frame: &Encoded) -> Origin {
    let EncodedKind::Observation { seq, kind, .. } = &frame.kind else { return Origin::default() };
    let at = match frame.told() {
        Some(observation) => observation.timestamp,
        None => serde_json::from_slice::<Head>(&frame.data()).map(|head| head.timestamp).unwrap_or_default(),
    };
    Origin { at, seq: *seq, kind: kind.as_str() }
}
