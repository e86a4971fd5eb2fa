//! `POST /threads/{thread}/release`: a quarantined thread goes on.

use axum::Json;
use axum::extract::State;

use crate::domain::thread::Thread;
use crate::http::app_state::AppState;
use crate::http::caller::MayAdmin;
use crate::http::ids::Ids;
use crate::http::json::{Nothing, OptionalJsonBody};
use crate::http::params::NoParams;
use crate::http::problem::HttpResult;
use crate::service::threads;

/// Let a quarantined thread accept requests again. Its runs that were quarantined have failed, and stay failed.
#[utoipa::path(post, path = "/threads/{thread}/release", operation_id = "releaseThread",
    tag = "threads", responses((status = 200, body = Thread)))]
pub(crate) async fn release(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
    _: OptionalJsonBody<Nothing>,
) -> HttpResult<Json<Thread>> {
    Ok(Json(threads::release(&app.service, &caller, &ids.thread()?).await?))
}
