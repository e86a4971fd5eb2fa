//! `GET /suspensions`: what waits for a person, across threads.

use axum::Json;
use axum::extract::State;
use serde_json::Value;

use crate::http::app_state::AppState;
use crate::http::caller::MayRead;
use crate::http::page::Listed;
use crate::http::params::{Params, wrong};
use crate::http::problem::HttpResult;
use crate::service::suspensions;

/// Open suspensions, oldest first.
#[utoipa::path(get, path = "/suspensions", operation_id = "listSuspensions", tag = "runs",
    params(("status" = Option<String>, Query, description = "pending"),
        ("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = Listed<crate::domain::hitl::Suspension>)))]
pub(crate) async fn list(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    mut params: Params,
) -> HttpResult<Json<Listed<Value>>> {
    if params.text("status").is_some_and(|status| status != "pending") {
        return Err(wrong("status", "must be pending").into());
    }
    let page = params.page()?;
    params.finish()?;
    Ok(Json(suspensions::list(&app.service, &caller, page).await?.into()))
}
