//! `/threads/{thread}/retention`: how long a thread is kept, and whether it may be deleted.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;

use crate::domain::retention::{Kept, Terms};
use crate::http::app_state::AppState;
use crate::http::caller::{MayAdmin, MayRead};
use crate::http::ids::Ids;
use crate::http::json::JsonBody;
use crate::http::params::NoParams;
use crate::http::problem::HttpResult;
use crate::service::retention::{self, Retention, RetentionAsk};

/// How long a thread is kept; what is absent is as for the whole tenant.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewRetention {
    /// The observations of finished runs: a number of days, or `forever`.
    log_days: Option<Kept>,
    /// The thread, from its last activity on: a number of days, or `forever`.
    thread_days: Option<Kept>,
    /// If present, nothing of the thread may be deleted, whoever asks and however old it is.
    hold: Option<NewHold>,
}

#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewHold {
    reason: String,
}

/// How long a thread is kept.
#[utoipa::path(get, path = "/threads/{thread}/retention", operation_id = "getRetention",
    tag = "threads", responses((status = 200, body = Retention)))]
pub(crate) async fn get(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
) -> HttpResult<Json<Retention>> {
    Ok(Json(retention::get(&app.service, &caller, &ids.thread()?).await?))
}

/// Set how long a thread is kept, or that nothing of it may be deleted. The body replaces what was set before.
#[utoipa::path(put, path = "/threads/{thread}/retention", operation_id = "putRetention",
    tag = "threads", request_body = NewRetention, responses((status = 200, body = Retention)))]
pub(crate) async fn put(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
    JsonBody(sent): JsonBody<NewRetention>,
) -> HttpResult<Json<Retention>> {
    let NewRetention { log_days, thread_days, hold } = sent;
    let ask = RetentionAsk { terms: Terms { log_days, thread_days }, hold: hold.map(|hold| hold.reason) };
    Ok(Json(retention::put(&app.service, &caller, &ids.thread()?, ask).await?))
}
