//! `/tasks`: what was delegated to other agents. Without agents there is nothing to list and nothing to find.

use axum::Json;
use axum::extract::State;
use serde_json::Value;

use crate::domain::fault::Fault;
use crate::domain::ids::TaskId;
use crate::http::caller::{MayRead, MayRun};
use crate::http::front::Front;
use crate::http::ids::Ids;
use crate::http::json::{MaybeSent, Nothing};
use crate::http::page::Listed;
use crate::http::params::NoParams;
use crate::http::problem::Answer;

/// The delegated tasks of a thread.
#[utoipa::path(get, path = "/threads/{thread}/tasks", tag = "tasks", responses((status = 200, body = Listed<Object>)))]
pub(crate) async fn list(
    MayRead(caller): MayRead,
    State(front): State<Front>,
    ids: Ids,
    _: NoParams,
) -> Answer<Json<Listed<Value>>> {
    front.runtime.thread(&caller, &ids.thread()?).await?;
    Ok(Json(Listed::whole(Vec::new())))
}

/// One delegated task.
#[utoipa::path(get, path = "/tasks/{task}", tag = "tasks", responses((status = 200, body = Object)))]
pub(crate) async fn get(_: MayRead, ids: Ids, _: NoParams) -> Answer<Json<Value>> {
    unknown(ids.get("task")?)
}

/// Cancel a delegated task.
#[utoipa::path(post, path = "/tasks/{task}/cancel", tag = "tasks", responses((status = 200, body = Object)))]
pub(crate) async fn cancel(_: MayRun, ids: Ids, _: NoParams, _: MaybeSent<Nothing>) -> Answer<Json<Value>> {
    unknown(ids.get("task")?)
}

fn unknown(_: TaskId) -> Answer<Json<Value>> {
    Err(Fault::not_found("task").into())
}
