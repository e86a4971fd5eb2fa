//! `POST /v1/chat/completions`: takes a conversation and returns the agent's next answer, as one object or as chunks.

mod accept;
mod events;
mod request;
mod stream;
mod task;
mod thread;
mod wire;

use accept::SentRequest;
pub(crate) use request::Sent;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::error::OpenAiError;
use super::models;
use crate::http::app_state::AppState;
use crate::http::caller::MayRun;
use crate::http::doors::DoorRequest;
use crate::http::idempotency::IdempotencyKey;
use crate::http::json::KeyedBody;
use crate::http::params::NoParams;
use crate::http::reply_preferences::ReplyPreferences;

/// Ask the agent as one asks a model: OpenAI's Chat Completions.
///
/// `X-PES-Thread`, or `metadata.pes_thread`, names the thread. `tools` are the client's own functions; their results, or a
/// text, answer what a run asks. With `X-PES-Task` a model alone is asked, on a thread of its own that is erased afterwards.
#[utoipa::path(post, path = "/v1/chat/completions", operation_id = "createOpenAiChatCompletion", tag = "openai",
    request_body = Object,
    params(("Idempotency-Key" = Option<String>, Header), ("X-PES-Thread" = Option<String>, Header),
        ("X-PES-Task" = Option<String>, Header)),
    responses((status = 200, description = "A completion, or its chunks", content(
        (Object = "application/json"), (String = "text/event-stream")))))]
pub(crate) async fn create(
    MayRun(caller): MayRun,
    State(app): State<AppState>,
    preferences: ReplyPreferences,
    _: NoParams,
    headers: HeaderMap,
    key: IdempotencyKey,
    sent: KeyedBody<Sent>,
) -> Result<Response, OpenAiError> {
    let model = models::find(&app, &sent.value.model)?;
    let request = sent.value.read(&model)?;
    let ctx = DoorRequest { app, caller, preferences };
    let sent = SentRequest { headers: &headers, fingerprint: &sent.fingerprint };
    let accepted = accept::accept(&ctx, sent, &model, &request, key.with_content(sent.fingerprint.to_owned())).await?;
    stream::respond(ctx, request, accepted).await
}
