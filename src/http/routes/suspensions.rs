//! `GET /suspensions`: what waits for a person, across threads, and what was answered.

use axum::Json;
use axum::extract::State;

use crate::domain::hitl::SuspensionStatus;
use crate::domain::ids::ThreadId;
use crate::http::app_state::AppState;
use crate::http::caller::MayReadQuestions;
use crate::http::page::Listed;
use crate::http::params::{Params, wrong};
use crate::http::problem::{HttpResult, Problem};
use crate::service::suspensions::{self, ListedSuspension};
use crate::store::SuspensionsWanted;

/// Questions to people: open ones, oldest first, or those that expire next first; with `status` or `decidedBy` also
/// closed ones, newest first.
///
/// A limited number of closed questions is examined for one page, so a page may have fewer items than `limit`, or none,
/// and still a `nextCursor`.
///
/// A key that may answer may also see what is asked: `approve` is enough.
#[utoipa::path(get, path = "/suspensions", operation_id = "listSuspensions", tag = "runs",
    params(("status" = Option<String>, Query, description = "pending (the default), resolved, expired, cancelled, or all"),
        ("threadId" = Option<String>, Query),
        ("decidedBy" = Option<String>, Query, description = "the name of a key: the questions that it answered"),
        ("sort" = Option<String>, Query, description = "expiresAt, for pending questions only"),
        ("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = Listed<ListedSuspension>)))]
pub(crate) async fn list(
    MayReadQuestions(caller): MayReadQuestions,
    State(app): State<AppState>,
    mut params: Params,
) -> HttpResult<Json<Listed<ListedSuspension>>> {
    let thread = params.text("threadId").map(ThreadId::from);
    let wanted = wanted(&mut params)?;
    let (page, list) = params.page()?;
    params.finish()?;
    Ok(Json(list.page(suspensions::list(&app.service, &caller, thread.as_ref(), wanted, page).await?)))
}

fn wanted(params: &mut Params) -> Result<SuspensionsWanted, Problem> {
    let decided_by = params.text("decidedBy");
    let by_expiry = match params.text("sort").as_deref() {
        None => false,
        Some("expiresAt") => true,
        Some(_) => return Err(wrong("sort", "must be expiresAt").into()),
    };
    let status = match params.text("status").as_deref() {
        Some("all") => None,
        // Pending questions have no decision.
        None if decided_by.is_some() => None,
        None => Some(SuspensionStatus::Pending),
        Some(text) => {
            let known = SuspensionStatus::ALL.into_iter().find(|status| status.as_str() == text);
            Some(known.ok_or_else(|| wrong("status", "must be pending, resolved, expired, cancelled or all"))?)
        }
    };
    match (status, decided_by, by_expiry) {
        (Some(SuspensionStatus::Pending), None, false) => Ok(SuspensionsWanted::Open),
        (Some(SuspensionStatus::Pending), None, true) => Ok(SuspensionsWanted::OpenByExpiry),
        (_, _, true) => Err(wrong("sort", "is for those that are pending").into()),
        (status, decided_by, false) => Ok(SuspensionsWanted::Past { status, decided_by }),
    }
}
