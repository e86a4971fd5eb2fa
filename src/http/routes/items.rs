//! `POST /threads/{thread}/items/{item}/retry` and `/skip`: a person steps in about one item of the active run.

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
use crate::service::runs::{self, ItemAction, Receipt};

/// Retry an item of the active run: a new attempt of the same item. Its earlier result stays in the log. If it was
/// completed, a person is asked about each of its calls, else about calls of tools whose effect an earlier attempt had or
/// may have had; not about calls that only read or are declared idempotent.
#[utoipa::path(post, path = "/threads/{thread}/items/{item}/retry", operation_id = "retryItem", tag = "runs",
    params(("Idempotency-Key" = Option<String>, Header)), responses((status = 202, body = Receipt)))]
pub(crate) async fn retry(
    MayRun(caller): MayRun,
    State(app): State<AppState>,
    ids: Ids,
    preferences: ReplyPreferences,
    _: NoParams,
    key: IdempotencyKey,
    OptionalKeyedBody(sent): OptionalKeyedBody<Nothing>,
) -> HttpResult<Response> {
    let action = ItemAction::Retry(ids.item());
    Ok(receipt(&preferences, accept(&app, &caller, &ids.thread()?, action, sent, key).await?))
}

/// Skip an item of the active run: it is cancelled, with everything of it that is in progress, and so are the items
/// that depend on it.
#[utoipa::path(post, path = "/threads/{thread}/items/{item}/skip", operation_id = "skipItem", tag = "runs",
    params(("Idempotency-Key" = Option<String>, Header)), responses((status = 202, body = Receipt)))]
pub(crate) async fn skip(
    MayRun(caller): MayRun,
    State(app): State<AppState>,
    ids: Ids,
    preferences: ReplyPreferences,
    _: NoParams,
    key: IdempotencyKey,
    OptionalKeyedBody(sent): OptionalKeyedBody<Nothing>,
) -> HttpResult<Response> {
    let action = ItemAction::Skip(ids.item());
    Ok(receipt(&preferences, accept(&app, &caller, &ids.thread()?, action, sent, key).await?))
}

async fn accept(
    app: &AppState,
    caller: &Caller,
    thread: &ThreadId,
    action: ItemAction,
    sent: KeyedBody<Nothing>,
    key: IdempotencyKey,
) -> Result<ReplyValue<Receipt>, Fault> {
    let answered = runs::act_on_item(&app.service, caller, thread, action, key.with(sent.fingerprint)).await?;
    reply_value(answered, StatusCode::ACCEPTED)
}
