//! `/threads/{thread}/plan`: the todo list, which people may edit while it runs.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::HeaderName;
use axum::http::header::{ETAG, HeaderValue};
use serde_json::Value;

use crate::domain::fault::{Code, Fault};
use crate::http::app_state::AppState;
use crate::http::caller::{MayRead, MayRun};
use crate::http::etag::{self, IfMatch};
use crate::http::ids::Ids;
use crate::http::json::{read_value, typed};
use crate::http::params::NoParams;
use crate::http::problem::HttpResult;
use crate::runtime::PlanPatch;

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";

type Planned = ([(HeaderName, HeaderValue); 1], Json<Value>);

/// The todo list; its version is the ETag.
#[utoipa::path(get, path = "/threads/{thread}/plan", operation_id = "getPlan", tag = "threads",
    responses((status = 200, body = Vec<crate::domain::plan::TodoItem>, headers(("ETag" = String)))))]
pub(crate) async fn get(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
) -> HttpResult<Planned> {
    Ok(planned(app.runtime.plan(&caller, &ids.thread()?).await?))
}

/// Edit pending items: JSON Patch or merge patch of the todo list.
#[utoipa::path(patch, path = "/threads/{thread}/plan", operation_id = "editPlan", tag = "threads",
    request_body(content((Vec<Object> = "application/json-patch+json"), (Object = "application/merge-patch+json"))),
    params(("If-Match" = String, Header)),
    responses((status = 200, body = Vec<crate::domain::plan::TodoItem>, headers(("ETag" = String)))))]
pub(crate) async fn patch(
    MayRun(caller): MayRun,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
    request: Request,
) -> HttpResult<Planned> {
    let id = ids.thread()?;
    let told = IfMatch::of(request.headers());
    let read = read_value(request, &app.config.limits, &[JSON_PATCH, MERGE_PATCH]).await?;
    let (_, current) = app.runtime.plan(&caller, &id).await?;
    let based_on = told
        .against(current)?
        .ok_or_else(|| Fault::new(Code::PreconditionRequired, "Read the plan, and send its ETag in If-Match."))?;
    let patch = match read.media_type {
        JSON_PATCH => PlanPatch::JsonPatch(typed(read.value)?),
        _ => PlanPatch::MergePatch(read.value),
    };
    Ok(planned(app.runtime.edit_plan(&caller, &id, patch, based_on).await?))
}

fn planned((list, version): (Value, i64)) -> Planned {
    ([(ETAG, etag::of(version))], Json(list))
}
