//! `/a2a/callbacks`: agents report on delegated tasks. A report only triggers a request for the task's state, so little
//! of it is read.

use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use serde_json::Value;

use crate::domain::fault::Fault;
use crate::domain::ids::TaskId;
use crate::http::app_state::AppState;
use crate::http::ids::Ids;
use crate::http::json::read_value;
use crate::http::params::NoParams;
use crate::http::problem::HttpResult;
use crate::service::callbacks;

/// Report on a delegated task. The secret is the one that came with the task, as `X-A2A-Notification-Token` or as a
/// bearer token; without it the response is 404. The response is sent once the report is stored.
#[utoipa::path(post, path = "/a2a/callbacks/{task}", operation_id = "reportTask", tag = "tasks", request_body = Object,
    responses((status = 202)))]
pub(crate) async fn report(
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
    request: Request,
) -> HttpResult<StatusCode> {
    let id: TaskId = ids.get("task")?;
    let token = secret(request.headers()).ok_or_else(|| Fault::not_found("task"))?;
    callbacks::check(&app.service, &id, &token)?;
    let types = ["application/json", "application/a2a+json"];
    // The content does not matter: a report only triggers a request for the task's state.
    let read = read_value(&app, request, &app.config.limits, &types).await;
    callbacks::report(&app.service, &id, &token, read.ok().and_then(|read| their_id(&read.value))).await?;
    Ok(StatusCode::ACCEPTED)
}

fn secret(headers: &HeaderMap) -> Option<String> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::to_owned);
    let bearer = || text(AUTHORIZATION.as_str())?.strip_prefix("Bearer ").map(str::to_owned);
    text("x-a2a-notification-token").or_else(bearer)
}

/// The agent's own task id, from a frame of version 1.0, or from a task or an update of version 0.3.
fn their_id(body: &Value) -> Option<String> {
    let places = ["/task/id", "/statusUpdate/taskId", "/artifactUpdate/taskId", "/message/taskId", "/taskId"];
    let named = places.iter().find_map(|place| body.pointer(place)?.as_str());
    let is_old_task = body.get("kind").is_some_and(|kind| kind == "task");
    named.or_else(|| body.get("id")?.as_str().filter(|_| is_old_task)).map(str::to_owned)
}
