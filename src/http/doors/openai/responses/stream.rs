//! The events of a response, live or read again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use bytes::Bytes;
use futures_util::stream;
use serde_json::{Value, json};

use super::accept::{self, AcceptedResponse};
use super::events::{ResponseEvent, ResponseEvents};
use super::object::ResponseId;
use super::read;
use super::request::ResponseRequest;
use crate::domain::fault::Code;
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::run::RunStatus;
use crate::http::doors::DoorRequest;
use crate::http::doors::answer_headers::set_run;
use crate::http::doors::frames::DecodedFrame;
use crate::http::doors::openai::error::OpenAiError;
use crate::http::doors::openai::run_request::AnswerSource;
use crate::http::doors::sse;
use crate::http::events::sse::event_response;
use crate::http::metrics::WaitedForRun;
use crate::service::feed::{self, EarlySubscription, Feed, FeedAsk};
use crate::service::suspensions;

const STOPPING: &str = "The server is stopping; the response can be had again from its successor.";

/// The maximum number of events in one write.
const MAX_EVENTS_PER_WRITE: usize = 64;

/// The response to a request.
pub(super) async fn respond(
    ctx: DoorRequest,
    request: &ResponseRequest,
    accepted: AcceptedResponse,
) -> Result<Response, OpenAiError> {
    let AcceptedResponse { thread, id, source } = accepted;
    let run = id.run.clone();
    let live = match source {
        AnswerSource::Live(early) => Some(early),
        AnswerSource::After(_) | AnswerSource::AskedAgain => None,
    };
    let mut response = if request.is_streamed {
        let stream = ResponseStream::open(&ctx, &id, &thread, live).await?;
        streamed(ctx, stream, None)
    } else if request.is_background {
        read::object(&ctx, &id).await?
    } else {
        let object = ResponseStream::open(&ctx, &id, &thread, live).await?.read_to_end().await?;
        (Extension(WaitedForRun), Json(object)).into_response()
    };
    set_run(response.headers_mut(), &thread, &run);
    Ok(response)
}

/// The events of a response after the one with number `after`.
pub(super) async fn replay(ctx: DoorRequest, id: ResponseId, after: Option<u64>) -> Result<Response, OpenAiError> {
    let thread = read::thread_of(&ctx, &id).await?;
    let stream = ResponseStream::open(&ctx, &id, &thread, None).await?;
    let mut response = streamed(ctx, stream, after);
    set_run(response.headers_mut(), &thread, &id.run);
    Ok(response)
}

fn streamed(ctx: DoorRequest, stream: ResponseStream, after: Option<u64>) -> Response {
    let sent = Arc::new(AtomicU64::new(0));
    let last_sent = sent.clone();
    let closing_events = sse::closing_events(STOPPING, move |fault| {
        let error = OpenAiError::from(fault.clone()).body()["error"].take();
        let number = last_sent.load(Ordering::Relaxed);
        let event = json!({
            "type": "error", "sequence_number": number, "code": error["code"], "message": error["message"], "param": null,
        });
        sse::named("error", &event)
    });
    let events = stream::unfold((stream, sent), move |(mut stream, sent)| async move {
        loop {
            let batch = stream.next_batch().await?;
            if let Some(last) = batch.last() {
                sent.store(last.number, Ordering::Relaxed);
            }
            let new = batch.iter().filter(|event| after.is_none_or(|after| event.number > after));
            let pieces: Vec<Bytes> = new.map(|event| sse::named(event.kind, &event.data)).collect();
            if !pieces.is_empty() {
                return Some((pieces.concat().into(), (stream, sent)));
            }
        }
    });
    event_response(&ctx.app, ctx.preferences.pass, Box::pin(events), closing_events)
}

/// The stream of a response's events.
pub(super) struct ResponseStream {
    run: RunId,
    pub(super) events: ResponseEvents,
    ready: VecDeque<ResponseEvent>,
    feed: Feed,
}

impl ResponseStream {
    /// `live` is a subscription from before the run started.
    pub(super) async fn open(
        ctx: &DoorRequest,
        id: &ResponseId,
        thread: &ThreadId,
        live: Option<EarlySubscription>,
    ) -> Result<Self, OpenAiError> {
        let head = accept::head(ctx, id).await?;
        let (service, caller) = (&ctx.app.service, &ctx.caller);
        let mut events = ResponseEvents::new(head, suspensions::urls(service));
        let ready = events.take().into();
        let ask = FeedAsk {
            after: accept::read_from(ctx, id, thread).await?,
            types: ResponseEvents::OBSERVATION_TYPES.to_vec(),
            tokens: true,
            until: Some(id.run.clone()),
            ends_suspended: true,
        };
        let feed = match live.filter(|_| id.answers.is_none()) {
            Some(early) => feed::continued(service, caller, thread, early, ask).await?,
            None => feed::open(service, caller, thread, ask).await?,
        };
        Ok(Self { run: id.run.clone(), events, ready, feed: feed.with_joined_tokens() })
    }

    /// The queued events, so that they are sent in one write. `None` at the end of the response.
    async fn next_batch(&mut self) -> Option<Vec<ResponseEvent>> {
        while self.ready.is_empty() {
            if self.events.is_finished() {
                return None;
            }
            self.read_frame().await;
        }
        Some(self.ready.drain(..self.ready.len().min(MAX_EVENTS_PER_WRITE)).collect())
    }

    /// Reads the next frame and queues its events. Returns `true` when everything from before the subscription was
    /// read.
    pub(super) async fn read_frame(&mut self) -> bool {
        let frame = self.feed.next().await;
        let mut has_caught_up = false;
        match frame.as_deref().map(DecodedFrame::decode) {
            Some(DecodedFrame::Observation(observation)) => self.events.observation(&observation),
            Some(DecodedFrame::Token(token)) => self.events.token(&token),
            Some(DecodedFrame::RunStatus(run, RunStatus::Suspended)) if run == self.run => self.events.suspended(),
            Some(DecodedFrame::CaughtUp) => has_caught_up = true,
            Some(DecodedFrame::RunStatus(..) | DecodedFrame::Other) => {}
            Some(DecodedFrame::Draining) => self.events.interrupted(Code::Draining.as_str(), STOPPING),
            Some(DecodedFrame::Gap) => {
                self.events.interrupted("gap", "The client reads too slowly; get the response again.")
            }
            None => self.events.interrupted(Code::NotFound.as_str(), "The thread was erased."),
        }
        self.ready.extend(self.events.take());
        has_caught_up
    }

    /// The response once it has ended. If it was interrupted, the client's library repeats the request and gets it
    /// then.
    async fn read_to_end(mut self) -> Result<Value, OpenAiError> {
        while self.next_batch().await.is_some() {}
        match self.events.interruption() {
            Some(error) => Err(error),
            None => Ok(self.events.response()),
        }
    }
}
