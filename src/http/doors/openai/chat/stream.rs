//! The response: chunks as they come, or one object at the end.

use std::collections::VecDeque;

use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use bytes::Bytes;
use futures_util::stream;

use super::accept::AcceptedCompletion;
use super::events::{CompletionEvents, CompletionPart, STOPPING};
use super::request::ChatRequest;
use super::wire::Completion;
use crate::domain::fault::Fault;
use crate::http::doors::DoorRequest;
use crate::http::doors::answer_headers::set_run;
use crate::http::doors::openai::error::OpenAiError;
use crate::http::doors::openai::temporary_thread::TemporaryThread;
use crate::http::doors::run_stream::RunStream;
use crate::http::doors::sse;
use crate::http::events::sse::event_response;
use crate::http::listeners::ConnectedClient;
use crate::http::metrics::WaitedForRun;
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
        let whole = ctx.app.while_admitted(&ctx.preferences.pass, whole(stream, &completion)).await?;
        (Extension(WaitedForRun), whole.map(Json)).into_response()
    };
    set_run(response.headers_mut(), &thread, &run);
    Ok(response)
}

async fn whole(mut stream: CompletionStream, completion: &Completion) -> Result<serde_json::Value, OpenAiError> {
    let mut parts = Vec::new();
    while let Some(part) = stream.next().await {
        parts.push(part);
    }
    completion.whole(&parts, stream.parts.projection.usage())
}

fn streamed(ctx: DoorRequest, request: &ChatRequest, stream: CompletionStream, completion: Completion) -> Response {
    let write = |fault: &Fault| sse::data(&OpenAiError::from(fault.clone()).body());
    let closing_events = sse::closing_events(STOPPING, write);
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
            self.ready.push_back(sse::data(&self.completion.usage_chunk(stream.parts.projection.usage())));
        }
        self.ready.push_back(Bytes::from_static(b"data: [DONE]\n\n"));
        self.stream = None;
        self.ready.pop_front()
    }
}

/// The parts of a completion.
struct CompletionStream {
    parts: RunStream<CompletionEvents>,
    client: ConnectedClient,
    /// The thread to erase after the answer was sent, or when the client disconnects.
    temporary: Option<TemporaryThread>,
}

impl CompletionStream {
    async fn open(ctx: &DoorRequest, accepted: AcceptedCompletion, is_buffered: bool) -> Result<Self, OpenAiError> {
        let AcceptedCompletion { thread, run, open, start, is_thread_named, key, is_retry, temporary } = accepted;
        let grace = ctx.app.config.doors.chat_grace().filter(|_| !is_thread_named);
        let pass = &ctx.preferences.pass;
        let mut client = ConnectedClient::connect(&ctx.app, (&ctx.caller, pass), &run, grace, key);
        if is_retry {
            client.announce().await?;
        }
        let events = CompletionEvents::new(run.clone(), open, suspensions::urls(&ctx.app.service));
        let mut events = events.with_buffering(is_buffered);
        let parts = match start {
            Some(start) => RunStream::open(ctx, &thread, &run, start, events, Vec::new()).await?,
            None => {
                let questions = events.suspended();
                RunStream::of_events(&run, events, questions)
            }
        };
        Ok(Self { parts, client, temporary })
    }

    /// `None` at the end of the completion.
    async fn next(&mut self) -> Option<CompletionPart> {
        if let Some(part) = self.parts.next().await {
            return Some(part);
        }
        self.client.mark_finished();
        if let Some(thread) = self.temporary.take() {
            thread.erase().await;
        }
        None
    }
}
