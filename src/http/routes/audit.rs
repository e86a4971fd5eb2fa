//! `GET /threads/{thread}/audit`: who decided what.

use axum::Json;
use axum::extract::State;

use crate::http::caller::MayRead;
use crate::http::front::Front;
use crate::http::ids::Ids;
use crate::http::page::Listed;
use crate::http::params::NoParams;
use crate::http::problem::Answer;
use crate::runtime::AuditLine;

/// Decisions of people, of the policy and of the timer, oldest first.
#[utoipa::path(get, path = "/threads/{thread}/audit", operation_id = "listThreadAudit", tag = "threads",
    responses((status = 200, body = Listed<AuditLine>)))]
pub(crate) async fn list(
    MayRead(caller): MayRead,
    State(front): State<Front>,
    ids: Ids,
    _: NoParams,
) -> Answer<Json<Listed<AuditLine>>> {
    Ok(Json(Listed::whole(front.runtime.audit(&caller, &ids.thread()?).await?)))
}
