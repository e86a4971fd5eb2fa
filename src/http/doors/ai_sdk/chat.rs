//! `POST /api/chat` and `GET /api/chat/{thread}/stream`: a message of the agent while it is written.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::accept::{self, AcceptedChat, MessageStart};
use super::request::{self, Body};
use super::stream;
use crate::domain::run::RunStatus;
use crate::http::app_state::AppState;
use crate::http::caller::{MayRead, MayRun};
use crate::http::doors::DoorRequest;
use crate::http::doors::conversation::unfinished_runs;
use crate::http::idempotency::IdempotencyKey;
use crate::http::ids::Ids;
use crate::http::json::KeyedBody;
use crate::http::params::NoParams;
use crate::http::problem::HttpResult;
use crate::http::reply_preferences::ReplyPreferences;

/// Ask the agent, or answer what it asks, as `useChat` of the AI SDK does.
#[utoipa::path(post, path = "/api/chat", operation_id = "sendChat", tag = "ai-sdk", request_body = Object,
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 200, description = "A UI message stream, as versions 6 and 7 read it",
        content((String = "text/event-stream")))))]
pub(crate) async fn send(
    MayRun(caller): MayRun,
    State(app): State<AppState>,
    preferences: ReplyPreferences,
    _: NoParams,
    key: IdempotencyKey,
    sent: KeyedBody<Body>,
) -> HttpResult<Response> {
    let KeyedBody { value, fingerprint } = sent;
    let sent = request::read(&app, value)?;
    let ctx = DoorRequest { app, caller, preferences };
    let accepted = accept::accept(&ctx, sent, key.with(fingerprint)).await?;
    Ok(stream::respond(ctx, accepted).await?)
}

/// The message that is being written, from its start. 204: none is, as in a chat that has not begun.
#[utoipa::path(get, path = "/api/chat/{thread}/stream", operation_id = "resumeChat", tag = "ai-sdk",
    responses((status = 200, description = "A UI message stream", content((String = "text/event-stream"))),
        (status = 204, description = "Nothing goes on in this chat")))]
pub(crate) async fn resume(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    ids: Ids,
    preferences: ReplyPreferences,
    _: NoParams,
) -> HttpResult<Response> {
    let thread = ids.thread()?;
    let runs = unfinished_runs(&app, &caller, &thread).await?;
    let first = |is_it: fn(RunStatus) -> bool| runs.iter().find(|(_, status)| is_it(*status));
    let Some((run, _)) = first(is_active).or_else(|| first(is_queued)) else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let accepted = AcceptedChat { thread, run: run.clone(), from: MessageStart::Whole };
    Ok(stream::respond(DoorRequest { app, caller, preferences }, accepted).await?)
}

fn is_active(status: RunStatus) -> bool {
    matches!(status, RunStatus::Running | RunStatus::Waiting)
}

/// Queued behind another run, which is active or has just ended.
fn is_queued(status: RunStatus) -> bool {
    status == RunStatus::Queued
}
