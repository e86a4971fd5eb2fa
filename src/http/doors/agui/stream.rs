//! The response: a stream of AG-UI events.

use axum::response::Response;
use futures_util::stream::{self, StreamExt};
use serde_json::{Value, json};

use super::accept::StreamStart;
use super::conversation;
use super::cursor::Segment;
use super::events::run_error;
use super::numbered::{NumberedEvent, NumberedEvents};
use super::request::ClientRun;
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::observation::ObservationType;
use crate::http::app_state::AppState;
use crate::http::doors::DoorRequest;
use crate::http::doors::answer_headers::set_run;
use crate::http::doors::frames::RunFrame;
use crate::http::doors::run_stream::{Projection, RunStart, RunStream};
use crate::http::doors::sse;
use crate::http::events::sse::{ClosingEvents, event_response};
use crate::service::feed::{self, After};

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
    let thread = client.thread.clone();
    let stream = open(&ctx, client, &run, from, conversation).await?;
    let events = stream.into_events().map(|NumberedEvent { id, data }| sse::numbered(id.as_deref(), &data));
    let closing_events = sse::closing_events(STOPPING, |fault| sse::data(&error(fault)));
    let mut response = event_response(&ctx.app, ctx.preferences.pass, Box::pin(events), closing_events);
    set_run(response.headers_mut(), &thread, &run);
    Ok(response)
}

async fn open(
    ctx: &DoorRequest,
    client: ClientRun,
    run: &RunId,
    from: StreamStart,
    conversation: Option<Value>,
) -> Result<RunStream<NumberedProjection>, Fault> {
    let thread = client.thread.clone();
    let segment = |start: After, settled: After, answers: u32| {
        let (run, has_snapshot) = (run.clone(), conversation.is_some());
        Segment { run, start: seq_of(start), settled: seq_of(settled), answers, has_snapshot }
    };
    let whole = || RunStart::whole(ctx, &thread, run, None);
    let is_resumed = matches!(from, StreamStart::AfterAnswers(..));
    let (mut events, start) = match from {
        StreamStart::Live(early) => {
            let at = early.after();
            (NumberedEvents::new(client, segment(at, at, 0)), RunStart::Live(early))
        }
        StreamStart::Whole => {
            let now = feed::subscribe(&ctx.app.service, &ctx.caller, &thread).await?.after();
            let start = whole().await?;
            (NumberedEvents::new(client, segment(start.after(), now, 0)), start)
        }
        StreamStart::AfterAnswers(after, answers) => {
            (NumberedEvents::new(client, segment(after, after, answers)), whole().await?)
        }
        StreamStart::AfterCut(cursor) => (NumberedEvents::resume_after(client, cursor), whole().await?),
    };
    // A stream after an answer must first read what happened before it.
    let begins = events.segment().has_snapshot || !(is_resumed || events.is_cut());
    let first = if begins { events.begin(conversation) } else { Vec::new() };
    let (app, caller) = (ctx.app.clone(), ctx.caller.clone());
    let projection = NumberedProjection { app, caller, thread: thread.clone(), events };
    RunStream::open(ctx, &thread, run, start, projection, first).await
}

/// Projects a run to numbered events. Reads the conversation when the run asks something.
struct NumberedProjection {
    app: AppState,
    caller: Caller,
    thread: ThreadId,
    events: NumberedEvents,
}

impl Projection for NumberedProjection {
    type Event = NumberedEvent;

    const OBSERVATION_TYPES: &'static [ObservationType] = &[];

    async fn project(&mut self, frame: RunFrame) -> Vec<NumberedEvent> {
        match frame {
            RunFrame::Observation(observation) if self.events.check_suspended_before(&observation) => {
                self.suspended().await
            }
            RunFrame::Observation(observation) => {
                let mut events = self.events.observation(&observation);
                if self.events.is_asked_while_running(&observation) {
                    events.extend(self.suspended().await);
                }
                events
            }
            RunFrame::Token(token) => self.events.token(&token),
            RunFrame::Suspended => self.suspended().await,
            RunFrame::CaughtUp if self.events.catch_up() => self.suspended().await,
            RunFrame::CallStarted(_) | RunFrame::CaughtUp => Vec::new(),
            RunFrame::Draining => self.events.interrupted(Code::Draining.as_str(), STOPPING),
            RunFrame::Gap => self.events.interrupted("gap", "The client reads too slowly; connect again."),
            RunFrame::LogUnreadable => self
                .events
                .interrupted(Code::StoreUnavailable.as_str(), "The events cannot be read now; connect again."),
            RunFrame::Erased => self.events.interrupted(Code::NotFound.as_str(), "The thread was erased."),
        }
    }

    fn is_finished(&self) -> bool {
        self.events.is_finished()
    }
}

impl NumberedProjection {
    /// The run, or a tool that keeps running, waits for an answer: the stream ends with the conversation and the open
    /// questions.
    async fn suspended(&mut self) -> Vec<NumberedEvent> {
        match conversation::snapshot(&self.app, &self.caller, &self.thread).await {
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
