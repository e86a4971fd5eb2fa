//! `GET /threads/{thread}/tool-calls/{call}`: one call, whole; `…/receipt`: what proves who let it run.

use axum::Json;
use axum::extract::State;
use serde_json::Value;

use crate::http::app_state::AppState;
use crate::http::caller::MayRead;
use crate::http::ids::Ids;
use crate::http::params::NoParams;
use crate::http::problem::HttpResult;
use crate::service::audit::{self, CallReceipt};
use crate::service::threads;

/// A tool call: what the model requested, what ran, and the result.
#[utoipa::path(get, path = "/threads/{thread}/tool-calls/{call}", operation_id = "getToolCall", tag = "threads",
    responses((status = 200, body = crate::domain::tool::CallRecord)))]
pub(crate) async fn get(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
) -> HttpResult<Json<Value>> {
    Ok(Json(threads::tool_call(&app.service, &caller, &ids.thread()?, &ids.get("call")?).await?))
}

/// The proof of who let a call run, and with which arguments; docs/AUDIT.md says how to verify it.
#[utoipa::path(get, path = "/threads/{thread}/tool-calls/{call}/receipt", operation_id = "getToolCallReceipt", tag = "threads",
    responses((status = 200, body = CallReceipt)))]
pub(crate) async fn receipt(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
) -> HttpResult<Json<CallReceipt>> {
    Ok(Json(audit::receipt(&app.service, &caller, &ids.thread()?, &ids.get("call")?).await?))
}
