//! `POST …/cancel`: a barrier. Answered when the run's effects can no longer start.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::domain::caller::Caller;
use crate::domain::fault::Fault;
use crate::domain::ids::ThreadId;
use crate::http::app_state::AppState;
use crate::http::caller::MayRun;
use crate::http::idempotency::{IdempotencyKey, ReplyValue, reply_value};
use crate::http::ids::Ids;
use crate::http::json::{KeyedBody, Nothing, OptionalKeyedBody};
use crate::http::params::NoParams;
use crate::http::problem::HttpResult;
use crate::service::once::Answered;
use crate::service::runs::{self, CancelReceipt};

/// Cancel everything on a thread, queued runs too. If nothing is left to cancel: 200.
#[utoipa::path(post, path = "/threads/{thread}/cancel", operation_id = "cancelThread", tag = "runs",
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 202, body = CancelReceipt), (status = 200, body = CancelReceipt)))]
pub(crate) async fn thread(
    MayRun(caller): MayRun,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
    key: IdempotencyKey,
    OptionalKeyedBody(sent): OptionalKeyedBody<Nothing>,
) -> HttpResult<Response> {
    Ok(accept(&app, &caller, &ids.thread()?, sent, key).await?.into_response())
}

/// Cancel one run. If it is cancelled already: 200; if it has completed or failed: 409 `run_finished`.
#[utoipa::path(post, path = "/runs/{run}/cancel", operation_id = "cancelRun", tag = "runs",
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 202, body = CancelReceipt), (status = 200, body = CancelReceipt)))]
pub(crate) async fn run(
    MayRun(caller): MayRun,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
    key: IdempotencyKey,
    OptionalKeyedBody(sent): OptionalKeyedBody<Nothing>,
) -> HttpResult<Response> {
    let answered = runs::cancel(&app.service, &caller, &ids.get("run")?, key.with(sent.fingerprint)).await?;
    Ok(reply(answered)?.into_response())
}

/// Cancels everything on a thread. Shared by REST and WebSocket.
pub(crate) async fn accept(
    app: &AppState,
    caller: &Caller,
    thread: &ThreadId,
    sent: KeyedBody<Nothing>,
    key: IdempotencyKey,
) -> Result<ReplyValue<CancelReceipt>, Fault> {
    reply(runs::cancel_thread(&app.service, caller, thread, key.with(sent.fingerprint)).await?)
}

fn reply(answered: Answered<CancelReceipt>) -> Result<ReplyValue<CancelReceipt>, Fault> {
    let is_over = matches!(&answered, Answered::Fresh(receipt) if receipt.already);
    reply_value(answered, if is_over { StatusCode::OK } else { StatusCode::ACCEPTED })
}
