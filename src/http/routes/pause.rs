//! `POST /threads/{thread}/pause`: nothing new starts until a person allows it.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use crate::domain::caller::Caller;
use crate::domain::fault::Fault;
use crate::domain::ids::ThreadId;
use crate::http::app_state::AppState;
use crate::http::caller::MayRun;
use crate::http::follow::receipt;
use crate::http::idempotency::{IdempotencyKey, ReplyValue, reply_value};
use crate::http::ids::Ids;
use crate::http::json::{KeyedBody, Nothing, OptionalKeyedBody};
use crate::http::params::NoParams;
use crate::http::problem::HttpResult;
use crate::http::reply_preferences::ReplyPreferences;
use crate::service::runs::{self, Receipt};

/// Pause the active run: a suspension of kind `pause` opens.
#[utoipa::path(post, path = "/threads/{thread}/pause", operation_id = "pauseThread", tag = "runs",
    params(("Idempotency-Key" = Option<String>, Header)), responses((status = 202, body = Receipt)))]
pub(crate) async fn pause(
    MayRun(caller): MayRun,
    State(app): State<AppState>,
    ids: Ids,
    preferences: ReplyPreferences,
    _: NoParams,
    key: IdempotencyKey,
    OptionalKeyedBody(sent): OptionalKeyedBody<Nothing>,
) -> HttpResult<Response> {
    Ok(receipt(&preferences, accept(&app, &caller, &ids.thread()?, sent, key).await?))
}

/// Shared by REST and WebSocket.
pub(crate) async fn accept(
    app: &AppState,
    caller: &Caller,
    thread: &ThreadId,
    sent: KeyedBody<Nothing>,
    key: IdempotencyKey,
) -> Result<ReplyValue<Receipt>, Fault> {
    let answered = runs::pause(&app.service, caller, thread, key.with(sent.fingerprint)).await?;
    reply_value(answered, StatusCode::ACCEPTED)
}
