//! `GET /threads/{thread}/audit`: who decided what.

use axum::Json;
use axum::extract::State;

use crate::http::app_state::AppState;
use crate::http::caller::MayRead;
use crate::http::ids::Ids;
use crate::http::page::Listed;
use crate::http::params::NoParams;
use crate::http::problem::HttpResult;
use crate::service::audit::{self, AuditLine};

/// Decisions of people, of the policy and of the timer, oldest first.
#[utoipa::path(get, path = "/threads/{thread}/audit", operation_id = "listThreadAudit", tag = "threads",
    responses((status = 200, body = Listed<AuditLine>)))]
pub(crate) async fn list(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
) -> HttpResult<Json<Listed<AuditLine>>> {
    Ok(Json(Listed::whole(audit::of_thread(&app.service, &caller, &ids.thread()?).await?)))
}
