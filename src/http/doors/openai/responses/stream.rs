//! The events of a response, live or read again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use bytes::Bytes;
use futures_util::stream;
use serde_json::{Value, json};

use super::accept::{self, AcceptedResponse};
use super::events::{ResponseEvent, ResponseEvents, STOPPING};
use super::object::ResponseId;
use super::read;
use super::request::ResponseRequest;
use crate::domain::ids::ThreadId;
use crate::http::doors::DoorRequest;
use crate::http::doors::answer_headers::set_run;
use crate::http::doors::openai::error::OpenAiError;
use crate::http::doors::run_stream::{RunStart, RunStream};
use crate::http::doors::sse;
use crate::http::events::sse::event_response;
use crate::http::metrics::WaitedForRun;
use crate::service::suspensions;

/// The maximum number of events in one write.
const MAX_EVENTS_PER_WRITE: usize = 64;

/// The response to a request.
pub(super) async fn respond(
    ctx: DoorRequest,
    request: &ResponseRequest,
    accepted: AcceptedResponse,
) -> Result<Response, OpenAiError> {
    let AcceptedResponse { thread, id, start } = accepted;
    let run = id.run.clone();
    let mut response = if request.is_streamed {
        let stream = open(&ctx, &id, &thread, start).await?;
        streamed(ctx, stream, None)
    } else if request.is_background {
        read::object(&ctx, &id).await?
    } else {
        let stream = open(&ctx, &id, &thread, start).await?;
        let object = ctx.app.while_admitted(&ctx.preferences.pass, read_to_end(stream)).await?;
        (Extension(WaitedForRun), object.map(Json)).into_response()
    };
    set_run(response.headers_mut(), &thread, &run);
    Ok(response)
}

/// The events of a response after the one with number `after`.
pub(super) async fn replay(ctx: DoorRequest, id: ResponseId, after: Option<u64>) -> Result<Response, OpenAiError> {
    let thread = read::thread_of(&ctx, &id).await?;
    let stream = open(&ctx, &id, &thread, None).await?;
    let mut response = streamed(ctx, stream, after);
    set_run(response.headers_mut(), &thread, &id.run);
    Ok(response)
}

fn streamed(ctx: DoorRequest, stream: RunStream<ResponseEvents>, after: Option<u64>) -> Response {
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
            // What is queued is sent in one write.
            let queue = stream.queue().await?;
            let batch: Vec<ResponseEvent> = queue.drain(..queue.len().min(MAX_EVENTS_PER_WRITE)).collect();
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

/// The stream of a response's events. `start` is where its run is read from, `None` if the log says it.
pub(super) async fn open(
    ctx: &DoorRequest,
    id: &ResponseId,
    thread: &ThreadId,
    start: Option<RunStart>,
) -> Result<RunStream<ResponseEvents>, OpenAiError> {
    let head = accept::head(ctx, id).await?;
    let mut events = ResponseEvents::new(head, suspensions::urls(&ctx.app.service));
    let first = events.take();
    let start = match start {
        Some(start) => start,
        None => RunStart::After(accept::read_from(ctx, id, thread).await?),
    };
    Ok(RunStream::open(ctx, thread, &id.run, start, events, first).await?)
}

/// The response once it has ended. If this server stops before that, the client's library repeats the request and gets
/// it then. If the events cannot be read to their end (`store_unavailable`, `gap`), the answer is an error that clients
/// do not repeat: the run, which the headers name, goes on, and a repeated request might begin another one. If there is
/// no answer, that is an error, too: clients that wait for one do not look at the status of the response.
async fn read_to_end(mut stream: RunStream<ResponseEvents>) -> Result<Value, OpenAiError> {
    while stream.next().await.is_some() {}
    match stream.projection.interruption().or_else(|| stream.projection.failure()) {
        Some(error) => Err(error.of_run()),
        None => Ok(stream.projection.response()),
    }
}
