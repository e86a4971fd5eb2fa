//! `/runs` and a thread's list of them.

use std::time::Duration;

use axum::Json;
use axum::extract::State;

use crate::domain::ids::ThreadId;
use crate::domain::run::{RunResource, RunStatus};
use crate::http::app_state::AppState;
use crate::http::caller::MayRead;
use crate::http::ids::Ids;
use crate::http::page::Listed;
use crate::http::params::{OnlyPage, Params};
use crate::http::prefer::MAX_WAIT_SECS;
use crate::http::problem::HttpResult;
use crate::http::reply_preferences::ReplyPreferences;
use crate::service::runs::{self, WaitsFor};

/// The runs of a thread, oldest first. A page may be short although there is another.
#[utoipa::path(get, path = "/threads/{thread}/runs", operation_id = "listThreadRuns", tag = "runs",
    params(("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = Listed<RunResource>)))]
pub(crate) async fn list(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    ids: Ids,
    OnlyPage(page, list): OnlyPage,
) -> HttpResult<Json<Listed<RunResource>>> {
    Ok(Json(list.page(runs::of_thread(&app.service, &caller, &ids.thread()?, page).await?)))
}

/// Runs of all threads, or of one, the last changed first. A page may be short although there is another.
#[utoipa::path(get, path = "/runs", operation_id = "listRuns", tag = "runs",
    params(("status" = Option<RunStatus>, Query), ("threadId" = Option<String>, Query),
        ("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = Listed<RunResource>)))]
pub(crate) async fn all(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    mut params: Params,
) -> HttpResult<Json<Listed<RunResource>>> {
    let status = params.one_of("status", &RunStatus::ALL, |status| status.as_str())?;
    let thread: Option<ThreadId> = params.text("threadId").map(ThreadId::from);
    let (page, list) = params.page()?;
    params.finish()?;
    Ok(Json(list.page(runs::list(&app.service, &caller, status, thread.as_ref(), page).await?)))
}

/// One run. With `wait`, waits at most that many seconds for it to end or suspend.
#[utoipa::path(get, path = "/runs/{run}", operation_id = "getRun", tag = "runs",
    params(("wait" = Option<u64>, Query, description = "seconds, at most 120")),
    responses((status = 200, body = RunResource)))]
pub(crate) async fn get(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    ids: Ids,
    preferences: ReplyPreferences,
    mut params: Params,
) -> HttpResult<Json<RunResource>> {
    let wait: Option<u64> = params.read("wait", "must be a number of seconds")?;
    params.finish()?;
    let id = ids.get("run")?;
    let run = match wait {
        Some(seconds) => {
            // Limited even while the run is active, so that a client which polls gets a response.
            let at_most = Duration::from_secs(seconds.min(MAX_WAIT_SECS));
            let waited = app.wait_run(&caller, &id, WaitsFor::Suspension, at_most);
            app.while_admitted(&preferences.pass, waited).await??.run
        }
        None => runs::get(&app.service, &caller, &id).await?,
    };
    Ok(Json(run))
}
