//! `/models`, `/tools`: the models and tools that a run can use.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use crate::domain::caller::Scope;
use crate::domain::ids::ThreadId;
use crate::domain::tool::ToolSpec;
use crate::http::app_state::AppState;
use crate::http::caller::{MayRead, permit};
use crate::http::page::Listed;
use crate::http::params::Params;
use crate::http::problem::HttpResult;
use crate::service::offers::{self, ModelInfo};

/// The models that runs may name. With `check=true` each gets a short test call, whose result is in `check`; that costs
/// a few tokens, so it needs the scope `run`, counts in `GET /usage` and under the caps, and is refused at a cap.
#[utoipa::path(get, path = "/models", operation_id = "listModels",
    tag = "server", params(("check" = Option<bool>, Query)),
    responses((status = 200, body = Listed<ModelInfo>)))]
pub(crate) async fn models(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    mut params: Params,
) -> HttpResult<Json<Listed<ModelInfo>>> {
    let is_check = params.flag("check", false)?;
    params.finish()?;
    if !is_check {
        return Ok(Json(Listed::whole(offers::models(&app.service))));
    }
    permit(&caller, Scope::Run)?;
    Ok(Json(Listed::whole(offers::check_models(&app.service, &caller).await?)))
}

/// The tools that the caller's agents may call. With `threadId`, those of the thread's active run, or of its next one
/// if none is active: without tools that are not enabled there, and with the client tools of the run.
#[utoipa::path(get, path = "/tools", operation_id = "listTools", tag = "server",
    params(("threadId" = Option<String>, Query)),
    responses((status = 200, body = Listed<ToolSpec>)))]
pub(crate) async fn tools(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    mut params: Params,
) -> HttpResult<Json<Listed<Arc<ToolSpec>>>> {
    let thread = params.text("threadId").map(ThreadId::from);
    params.finish()?;
    let tools = match thread {
        Some(thread) => offers::tools_of(&app.service, &caller, &thread).await?,
        None => offers::tools(&app.service, &caller).await,
    };
    Ok(Json(Listed::whole(tools)))
}
