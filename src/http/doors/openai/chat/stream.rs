//! The response: chunks as they come, or one object at the end.

use std::collections::VecDeque;

use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use bytes::Bytes;
use futures_util::stream;

use super::accept::AcceptedCompletion;
use super::events::{CompletionEvents, CompletionPart};
use super::request::ChatRequest;
use super::wire::Completion;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::RunId;
use crate::domain::run::RunStatus;
use crate::http::doors::DoorRequest;
use crate::http::doors::answer_headers::set_run;
use crate::http::doors::frames::DecodedFrame;
use crate::http::doors::openai::error::OpenAiError;
use crate::http::doors::openai::run_request::AnswerSource;
use crate::http::doors::openai::temporary_thread::TemporaryThread;
use crate::http::doors::sse;
use crate::http::events::sse::event_response;
use crate::http::listeners::ConnectedClient;
use crate::http::metrics::WaitedForRun;
use crate::service::feed::{self, Feed, FeedAsk};
use crate::service::suspensions;

pub(super) async fn respond(
    ctx: DoorRequest,
    request: ChatRequest,
    accepted: AcceptedCompletion,
) -> Result<Response, OpenAiError> {
    let (thread, run) = (accepted.thread.clone(), accepted.run.clone());
    let completion = Completion::new(&run, ctx.app.service.now(), request.model.clone());
    let stream = CompletionStream::open(&ctx, accepted, request.options.answer_schema.is_some()).await?;
    let mut response = if request.is_streamed {
        streamed(ctx, &request, stream, completion)
    } else {
        (Extension(WaitedForRun), Json(whole(stream, &completion).await?)).into_response()
    };
    set_run(response.headers_mut(), &thread, &run);
    Ok(response)
}

async fn whole(mut stream: CompletionStream, completion: &Completion) -> Result<serde_json::Value, OpenAiError> {
    let mut parts = Vec::new();
    while let Some(part) = stream.next().await {
        parts.push(part);
    }
    completion.whole(&parts, stream.events.usage())
}

fn streamed(ctx: DoorRequest, request: &ChatRequest, stream: CompletionStream, completion: Completion) -> Response {
    let write = |fault: &Fault| sse::data(&OpenAiError::from(fault.clone()).body());
    let closing_events = sse::closing_events("The server is stopping; send this again.", write);
    let writer = ChunkWriter {
        ready: [sse::data(&completion.first_chunk())].into(),
        stream: Some(stream),
        completion,
        calls: 0,
        with_usage: request.with_usage,
    };
    let events = stream::unfold(writer, |mut writer| async { writer.next().await.map(|bytes| (bytes, writer)) });
    event_response(&ctx.app, ctx.preferences.pass, Box::pin(events), closing_events)
}

/// Writes the chunks.
struct ChunkWriter {
    ready: VecDeque<Bytes>,
    /// `None` once all parts were written.
    stream: Option<CompletionStream>,
    completion: Completion,
    calls: usize,
    with_usage: bool,
}

impl ChunkWriter {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(bytes) = self.ready.pop_front() {
            return Some(bytes);
        }
        let stream = self.stream.as_mut()?;
        if let Some(part) = stream.next().await {
            return Some(sse::data(&self.completion.part(&part, &mut self.calls)));
        }
        if self.with_usage {
            self.ready.push_back(sse::data(&self.completion.usage_chunk(stream.events.usage())));
        }
        self.ready.push_back(Bytes::from_static(b"data: [DONE]\n\n"));
        self.stream = None;
        self.ready.pop_front()
    }
}

/// The parts of a completion.
struct CompletionStream {
    run: RunId,
    events: CompletionEvents,
    ready: VecDeque<CompletionPart>,
    /// `None` if nothing more is read.
    feed: Option<Feed>,
    client: ConnectedClient,
    /// The thread to erase after the answer was sent, or when the client disconnects.
    temporary: Option<TemporaryThread>,
}

impl CompletionStream {
    async fn open(ctx: &DoorRequest, accepted: AcceptedCompletion, is_buffered: bool) -> Result<Self, OpenAiError> {
        let AcceptedCompletion { thread, run, open, source, is_thread_named, key, is_retry, temporary } = accepted;
        let (app, caller) = (&ctx.app, &ctx.caller);
        let grace = app.config.doors.chat_grace().filter(|_| !is_thread_named);
        let mut client = ConnectedClient::connect(app, (caller, &ctx.preferences.pass), &run, grace, key);
        if is_retry {
            client.announce().await?;
        }
        let events = CompletionEvents::new(run.clone(), open, suspensions::urls(&app.service));
        let mut events = events.with_buffering(is_buffered);
        let ask = |after| FeedAsk {
            after,
            types: CompletionEvents::OBSERVATION_TYPES.to_vec(),
            tokens: true,
            until: Some(run.clone()),
            ends_suspended: true,
        };
        let service = &app.service;
        let (feed, ready): (_, VecDeque<CompletionPart>) = match source {
            AnswerSource::Live(early) => {
                let ask = ask(early.after());
                (Some(feed::continued(service, caller, &thread, early, ask).await?), VecDeque::new())
            }
            AnswerSource::After(after) => {
                (Some(feed::open(service, caller, &thread, ask(after)).await?), VecDeque::new())
            }
            AnswerSource::AskedAgain => (None, events.suspended().into()),
        };
        let feed = feed.map(Feed::with_joined_tokens);
        Ok(Self { run, events, ready, feed, client, temporary })
    }

    /// `None` at the end of the completion.
    async fn next(&mut self) -> Option<CompletionPart> {
        loop {
            if let Some(part) = self.ready.pop_front() {
                return Some(part);
            }
            if self.events.is_finished() {
                self.client.mark_finished();
                if let Some(thread) = self.temporary.take() {
                    thread.erase().await;
                }
                return None;
            }
            let frame = match &mut self.feed {
                Some(feed) => feed.next().await,
                None => None,
            };
            let parts = match frame.as_deref().map(DecodedFrame::decode) {
                Some(DecodedFrame::Observation(observation)) => self.events.observation(&observation),
                Some(DecodedFrame::Token(token)) => self.events.token(&token),
                Some(DecodedFrame::RunStatus(run, RunStatus::Suspended)) if run == self.run => self.events.suspended(),
                Some(DecodedFrame::RunStatus(..) | DecodedFrame::CaughtUp | DecodedFrame::Other) => Vec::new(),
                Some(DecodedFrame::Draining) => {
                    self.events.interrupted(Code::Draining.as_str(), "The server is stopping; send this again.")
                }
                Some(DecodedFrame::Gap) => {
                    self.events.interrupted("gap", "The client reads too slowly; ask for the thread.")
                }
                None => self.events.interrupted(Code::NotFound.as_str(), "The thread was erased."),
            };
            self.ready.extend(parts);
        }
    }
}
