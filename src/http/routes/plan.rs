//! `/threads/{thread}/plan`: the todo list, which people may edit while it runs.

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use crate::domain::expected_cost::Forecast;
use crate::domain::fault::Fault;
use crate::http::app_state::AppState;
use crate::http::caller::{MayRead, MayRun};
use crate::http::etag::Tagged;
use crate::http::idempotency::{IdempotencyKey, replay_headers};
use crate::http::ids::Ids;
use crate::http::json::{JsonValue, fingerprint, read_value, typed};
use crate::http::params::NoParams;
use crate::http::problem::HttpResult;
use crate::service::if_match::IfMatch;
use crate::service::plan::{self, PlanPatch};

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";

/// The todo list; its version is the ETag.
#[utoipa::path(get, path = "/threads/{thread}/plan", operation_id = "getPlan", tag = "threads",
    responses((status = 200, body = Vec<crate::domain::plan::TodoItem>, headers(("ETag" = String)))))]
pub(crate) async fn get(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
) -> HttpResult<Tagged<Value>> {
    let (value, version) = plan::get(&app.service, &caller, &ids.thread()?).await?;
    Ok(Tagged { value, version })
}

/// Edit pending items: JSON Patch or merge patch of the todo list. A repeated request with the same `Idempotency-Key` gets
/// the list after the first one.
#[utoipa::path(patch, path = "/threads/{thread}/plan", operation_id = "editPlan", tag = "threads",
    request_body(content((Vec<Object> = "application/json-patch+json"), (Object = "application/merge-patch+json"))),
    params(("If-Match" = String, Header), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 200, body = Vec<crate::domain::plan::TodoItem>, headers(("ETag" = String)))))]
pub(crate) async fn patch(
    MayRun(caller): MayRun,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
    key: IdempotencyKey,
    request: Request,
) -> HttpResult<Response> {
    let id = ids.thread()?;
    let on = IfMatch::of(request.headers());
    let sent = read_patch(request, &app).await?;
    let key = key.with(fingerprint(&sent.value));
    let edited = plan::edit(&app.service, &caller, &id, patch_of(sent)?, &on, key).await?;
    let tagged = Tagged { value: edited.list, version: edited.version };
    Ok((replay_headers(edited.is_replay), tagged).into_response())
}

/// What the plan may do: the tools of each item, what the policy will decide about them, and what its items may cost.
#[utoipa::path(get, path = "/threads/{thread}/plan/forecast", operation_id = "getPlanForecast", tag = "threads",
    responses((status = 200, body = Forecast, headers(("ETag" = String)))))]
pub(crate) async fn forecast(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
) -> HttpResult<Tagged<Forecast>> {
    let forecast = plan::forecast(&app.service, &caller, &ids.thread()?).await?;
    Ok(Tagged { version: forecast.plan.plan_version, value: forecast })
}

/// The same for an edited plan, without editing it: the body is that of an edit.
#[utoipa::path(post, path = "/threads/{thread}/plan/forecast", operation_id = "forecastPlanEdit", tag = "threads",
    request_body(content((Vec<Object> = "application/json-patch+json"), (Object = "application/merge-patch+json"))),
    responses((status = 200, body = Forecast)))]
pub(crate) async fn forecast_edit(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
    request: Request,
) -> HttpResult<Json<Forecast>> {
    let id = ids.thread()?;
    let patch = patch_of(read_patch(request, &app).await?)?;
    Ok(Json(plan::forecast_edit(&app.service, &caller, &id, patch).await?))
}

async fn read_patch(request: Request, app: &AppState) -> Result<JsonValue, Fault> {
    read_value(app, request, &app.config.limits, &[JSON_PATCH, MERGE_PATCH]).await
}

fn patch_of(sent: JsonValue) -> Result<PlanPatch, Fault> {
    Ok(match sent.media_type {
        JSON_PATCH => PlanPatch::JsonPatch(typed(sent.value)?),
        _ => PlanPatch::MergePatch(sent.value),
    })
}
