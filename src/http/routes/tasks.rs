//! `/tasks`: what was delegated to other agents.

use axum::Json;
use axum::extract::State;

use crate::domain::ids::TaskId;
use crate::domain::task::TaskResource;
use crate::http::app_state::AppState;
use crate::http::caller::{MayRead, MayRun};
use crate::http::ids::Ids;
use crate::http::json::{Nothing, OptionalJsonBody};
use crate::http::page::Listed;
use crate::http::params::{NoParams, OnlyPage};
use crate::http::problem::HttpResult;
use crate::service::delegated_tasks;

/// The delegated tasks of a thread, oldest first. A page may be short although there is another.
#[utoipa::path(get, path = "/threads/{thread}/tasks", operation_id = "listThreadTasks", tag = "tasks",
    params(("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = Listed<TaskResource>)))]
pub(crate) async fn list(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    ids: Ids,
    OnlyPage(page, list): OnlyPage,
) -> HttpResult<Json<Listed<TaskResource>>> {
    Ok(Json(list.page(delegated_tasks::of_thread(&app.service, &caller, &ids.thread()?, page).await?)))
}

/// The delegated tasks of all threads, newest first. A page may be short although there is another.
#[utoipa::path(get, path = "/tasks", operation_id = "listTasks", tag = "tasks",
    params(("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = Listed<TaskResource>)))]
pub(crate) async fn all(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    OnlyPage(page, list): OnlyPage,
) -> HttpResult<Json<Listed<TaskResource>>> {
    Ok(Json(list.page(delegated_tasks::list(&app.service, &caller, page).await?)))
}

/// One delegated task.
#[utoipa::path(get, path = "/tasks/{task}", operation_id = "getTask",
    tag = "tasks", responses((status = 200, body = TaskResource)))]
pub(crate) async fn get(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
) -> HttpResult<Json<TaskResource>> {
    let id: TaskId = ids.get("task")?;
    Ok(Json(delegated_tasks::get(&app.service, &caller, &id).await?))
}

/// Cancel a delegated task: its item continues without it, and the agent is told to stop.
#[utoipa::path(post, path = "/tasks/{task}/cancel", operation_id = "cancelTask",
    tag = "tasks", responses((status = 200, body = TaskResource)))]
pub(crate) async fn cancel(
    MayRun(caller): MayRun,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
    _: OptionalJsonBody<Nothing>,
) -> HttpResult<Json<TaskResource>> {
    let id: TaskId = ids.get("task")?;
    Ok(Json(delegated_tasks::cancel(&app.service, &caller, &id).await?))
}
