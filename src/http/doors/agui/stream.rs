//! The response: a stream of AG-UI events.

use std::collections::VecDeque;

use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};

use super::accept::StreamStart;
use super::conversation;
use super::cursor::Segment;
use super::events::{Origin, run_error};
use super::numbered::{NumberedEvent, NumberedEvents};
use super::request::ClientRun;
use crate::domain::Millis;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::run::RunStatus;
use crate::http::doors::DoorRequest;
use crate::http::doors::answer_headers::set_run;
use crate::http::doors::frames::DecodedFrame;
use crate::http::doors::sse;
use crate::http::events::sse::{ClosingEvents, event_response};
use crate::live::{Encoded, EncodedKind};
use crate::service::feed::{self, After, Feed, FeedAsk};

const STOPPING: &str = "The server is stopping; connect again, the run goes on.";

pub(super) fn started(client: &ClientRun) -> Value {
    let mut started = json!({ "type": "RUN_STARTED", "threadId": client.thread, "runId": client.id });
    if client.speaks_v1 {
        started["protocolVersion"] = json!("1.0");
    }
    started
}

/// A stream of exactly these events.
pub(super) fn fixed_events(ctx: DoorRequest, events: Vec<Value>) -> Response {
    let events = stream::iter(events.into_iter().map(|event| sse::data(&event)));
    event_response(&ctx.app, ctx.preferences.pass, Box::pin(events), ClosingEvents::default())
}

/// The event that ends a stream with this fault.
fn error(fault: &Fault) -> Value {
    run_error(fault.code.as_str(), &fault.detail, fault.code.retryable())
}

/// A stream that only says why nothing was done.
pub(super) fn refused(ctx: DoorRequest, client: &ClientRun, fault: &Fault) -> Response {
    fixed_events(ctx, vec![started(client), error(fault)])
}

/// The stream of a run. `conversation` follows the very first event.
pub(super) async fn respond(
    ctx: DoorRequest,
    client: ClientRun,
    run: RunId,
    from: StreamStart,
    conversation: Option<Value>,
) -> Result<Response, Fault> {
    let (thread, pass) = (client.thread.clone(), ctx.preferences.pass.clone());
    let app = ctx.app.clone();
    let stream = AguiStream::open(ctx, client, &run, from, conversation).await?;
    let events = stream::unfold(stream, |mut stream| async { stream.next().await.map(|bytes| (bytes, stream)) });
    let closing_events = sse::closing_events(STOPPING, |fault| sse::data(&error(fault)));
    let mut response = event_response(&app, pass, Box::pin(events), closing_events);
    set_run(response.headers_mut(), &thread, &run);
    Ok(response)
}

/// The stream of one run.
struct AguiStream {
    ctx: DoorRequest,
    thread: ThreadId,
    events: NumberedEvents,
    feed: Feed,
    ready: VecDeque<NumberedEvent>,
}

/// The member of an observation that its events repeat.
#[derive(Deserialize)]
struct ObservationTime {
    timestamp: Millis,
}

impl AguiStream {
    async fn open(
        ctx: DoorRequest,
        client: ClientRun,
        run: &RunId,
        from: StreamStart,
        conversation: Option<Value>,
    ) -> Result<Self, Fault> {
        let (service, caller, thread) = (&ctx.app.service, &ctx.caller, client.thread.clone());
        let ask =
            |after| FeedAsk { after, types: Vec::new(), tokens: true, until: Some(run.clone()), ends_suspended: true };
        let segment = |start: After, settled: After, answers: u32| {
            let (run, has_snapshot) = (run.clone(), conversation.is_some());
            Segment { run, start: seq_of(start), settled: seq_of(settled), answers, has_snapshot }
        };
        let before = || feed::before(service, caller, &thread, run);
        let is_resumed = matches!(from, StreamStart::AfterAnswers(..));
        let (mut events, feed) = match from {
            StreamStart::Live(early) => {
                let (start, ask) = (early.after(), ask(early.after()));
                let feed = feed::continued(service, caller, &thread, early, ask).await?;
                (NumberedEvents::new(client, segment(start, start, 0)), feed)
            }
            StreamStart::Whole => {
                let now = feed::subscribe(service, caller, &thread).await?.after();
                let start = before().await?;
                let feed = feed::open(service, caller, &thread, ask(start)).await?;
                (NumberedEvents::new(client, segment(start, now, 0)), feed)
            }
            StreamStart::AfterAnswers(after, answers) => {
                let feed = feed::open(service, caller, &thread, ask(before().await?)).await?;
                (NumberedEvents::new(client, segment(after, after, answers)), feed)
            }
            StreamStart::AfterCut(cursor) => {
                let feed = feed::open(service, caller, &thread, ask(before().await?)).await?;
                (NumberedEvents::resume_after(client, cursor), feed)
            }
        };
        // A stream after an answer must first read what happened before it.
        let begins = events.segment().has_snapshot || !(is_resumed || events.is_cut());
        let ready = if begins { events.begin(conversation).into() } else { VecDeque::new() };
        Ok(Self { ctx, thread, events, feed: feed.with_joined_tokens(), ready })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(NumberedEvent { id, data }) = self.ready.pop_front() {
                return Some(sse::numbered(id.as_deref(), &data));
            }
            if self.events.is_finished() {
                return None;
            }
            let events = match self.feed.next().await {
                Some(frame) => self.handle_frame(&frame).await,
                None => self.events.interrupted(Code::NotFound.as_str(), "The thread was erased."),
            };
            self.ready.extend(events);
        }
    }

    async fn handle_frame(&mut self, frame: &Encoded) -> Vec<NumberedEvent> {
        match DecodedFrame::decode(frame) {
            DecodedFrame::Observation(observation) if self.events.check_suspended_before(&observation) => {
                self.suspended().await
            }
            DecodedFrame::Observation(observation) => {
                let mut events = self.events.observation(&origin(frame), &observation);
                if self.events.is_asked_while_running(&observation) {
                    events.extend(self.suspended().await);
                }
                events
            }
            DecodedFrame::Token(token) => self.events.token(&token),
            DecodedFrame::RunStatus(run, RunStatus::Suspended) if run == self.events.segment().run => {
                self.suspended().await
            }
            DecodedFrame::CaughtUp if self.events.catch_up() => self.suspended().await,
            DecodedFrame::RunStatus(..) | DecodedFrame::CaughtUp | DecodedFrame::Other => Vec::new(),
            DecodedFrame::Draining => self.events.interrupted(Code::Draining.as_str(), STOPPING),
            DecodedFrame::Gap => self.events.interrupted("gap", "The client reads too slowly; connect again."),
        }
    }

    /// The run, or a tool that keeps running, waits for an answer: the stream ends with the conversation and the open
    /// questions.
    async fn suspended(&mut self) -> Vec<NumberedEvent> {
        let DoorRequest { app, caller, .. } = &self.ctx;
        match conversation::snapshot(app, caller, &self.thread).await {
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
    let at = match frame.as_observation() {
        Some(observation) => observation.timestamp,
        None => serde_json::from_slice::<ObservationTime>(&frame.data()).map(|head| head.timestamp).unwrap_or_default(),
    };
    Origin { at, seq: *seq, kind: kind.as_str() }
}
