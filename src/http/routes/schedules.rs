//! `/schedules`: queries that are asked again and again, or once at a time to come.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};

use super::resource;
use crate::domain::run::RunResource;
use crate::domain::schedule::{ScheduleResource, ScheduleSpec, ScheduledTime};
use crate::http::app_state::AppState;
use crate::http::caller::{MayRead, MayRun};
use crate::http::follow::absolute;
use crate::http::idempotency::{IdempotencyKey, ReplyValue, reply_value};
use crate::http::ids::Ids;
use crate::http::json::{KeyedBody, Nothing, OptionalKeyedBody};
use crate::http::page::Listed;
use crate::http::params::{NoParams, Params, wrong};
use crate::http::problem::HttpResult;
use crate::http::reply_preferences::ReplyPreferences;
use crate::service::resources::{Resource, Schedules};
use crate::service::runs::Receipt;
use crate::service::schedules;

/// How many times are shown if the caller does not say, and at most.
const DEFAULT_TIMES: usize = 5;
const MAX_TIMES: usize = 100;

/// Every schedule of the caller's tenant.
#[utoipa::path(get, path = "/schedules", operation_id = "listSchedules",
    tag = "schedules", responses((status = 200, body = Listed<ScheduleResource>)))]
pub(crate) async fn list(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    _: NoParams,
) -> HttpResult<Json<Listed<ScheduleResource>>> {
    resource::list::<Schedules>(&app, &caller)
}

/// Add a schedule. Its runs have the rights of the key that wrote it last. That key may not approve their calls.
#[utoipa::path(post, path = "/schedules", operation_id = "createSchedule", tag = "schedules", request_body = ScheduleSpec,
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 201, body = ScheduleResource, headers(("Location" = String)))))]
pub(crate) async fn create(
    MayRun(caller): MayRun,
    State(app): State<AppState>,
    _: NoParams,
    preferences: ReplyPreferences,
    key: IdempotencyKey,
    sent: KeyedBody<ScheduleSpec>,
) -> HttpResult<Response> {
    resource::create::<Schedules>(&app, &caller, &preferences, key, sent, "/schedules").await
}

/// One schedule, with its current state. Its version is the ETag.
#[utoipa::path(get, path = "/schedules/{schedule}", operation_id = "getSchedule",
    tag = "schedules", responses((status = 200, body = ScheduleResource, headers(("ETag" = String)))))]
pub(crate) async fn get(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
) -> HttpResult<Response> {
    let id: String = ids.get("schedule")?;
    Ok(resource::tagged(Schedules::get(&app.service, &caller, &id).await?))
}

/// Replace a schedule. If its times change, times that were already due and had no run get none.
#[utoipa::path(put, path = "/schedules/{schedule}", operation_id = "replaceSchedule", tag = "schedules",
    request_body = ScheduleSpec,
    params(("If-Match" = Option<String>, Header), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 200, body = ScheduleResource, headers(("ETag" = String)))))]
pub(crate) async fn put(
    MayRun(caller): MayRun,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
    key: IdempotencyKey,
    headers: HeaderMap,
    sent: KeyedBody<ScheduleSpec>,
) -> HttpResult<Response> {
    let id: String = ids.get("schedule")?;
    resource::put_once::<Schedules>(&app, &caller, &id, &headers, key, sent).await
}

/// Change a schedule by a merge patch (RFC 7386): `{"paused": true}` pauses it.
#[utoipa::path(patch, path = "/schedules/{schedule}", operation_id = "updateSchedule", tag = "schedules",
    request_body(content = Object, content_type = "application/merge-patch+json"),
    params(("If-Match" = Option<String>, Header), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 200, body = ScheduleResource, headers(("ETag" = String)))))]
pub(crate) async fn patch(
    MayRun(caller): MayRun,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
    key: IdempotencyKey,
    request: Request,
) -> HttpResult<Response> {
    let id: String = ids.get("schedule")?;
    resource::patch_once::<Schedules>(&app, &caller, &id, key, request).await
}

/// Remove a schedule. Its runs continue.
#[utoipa::path(delete, path = "/schedules/{schedule}", operation_id = "deleteSchedule",
    tag = "schedules", responses((status = 204)))]
pub(crate) async fn delete(
    MayRun(caller): MayRun,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
) -> HttpResult<StatusCode> {
    let id: String = ids.get("schedule")?;
    resource::delete::<Schedules>(&app, &caller, &id).await
}

/// Run a schedule now, even if it is paused. Its times stay as they are.
#[utoipa::path(post, path = "/schedules/{schedule}/trigger", operation_id = "triggerSchedule", tag = "schedules",
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 202, body = Receipt, headers(("Location" = String)))))]
pub(crate) async fn trigger(
    MayRun(caller): MayRun,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
    preferences: ReplyPreferences,
    key: IdempotencyKey,
    OptionalKeyedBody(sent): OptionalKeyedBody<Nothing>,
) -> HttpResult<Response> {
    let id: String = ids.get("schedule")?;
    let asked = schedules::trigger(&app.service, &caller, &id, key.with(sent.fingerprint)).await?;
    let asked = reply_value(asked, StatusCode::ACCEPTED)?;
    let place = asked.value.run_url.clone();
    let asked = ReplyValue { value: absolute(&preferences.base, asked.value), ..asked };
    Ok(asked.at(&preferences, &place))
}

/// The next times of a schedule. A paused schedule has none.
#[utoipa::path(get, path = "/schedules/{schedule}/next", operation_id = "listScheduledTimes", tag = "schedules",
    params(("n" = Option<u32>, Query, description = "how many, 1 to 100")),
    responses((status = 200, body = Listed<ScheduledTime>)))]
pub(crate) async fn next(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    ids: Ids,
    mut params: Params,
) -> HttpResult<Response> {
    const EXPECTED: &str = "is a number from 1 to 100";
    let id: String = ids.get("schedule")?;
    let count = params.read("n", EXPECTED)?.unwrap_or(DEFAULT_TIMES);
    params.finish()?;
    if !(1..=MAX_TIMES).contains(&count) {
        return Err(wrong("n", EXPECTED).into());
    }
    Ok(Json(Listed::whole(schedules::next(&app.service, &caller, &id, count)?)).into_response())
}

/// The newest runs of a schedule, of the last 30 days.
#[utoipa::path(get, path = "/schedules/{schedule}/runs", operation_id = "listScheduleRuns", tag = "schedules",
    params(("limit" = Option<u32>, Query)), responses((status = 200, body = Listed<RunResource>)))]
pub(crate) async fn runs(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    ids: Ids,
    mut params: Params,
) -> HttpResult<Json<Listed<RunResource>>> {
    let id: String = ids.get("schedule")?;
    let limit = params.limit()?;
    params.finish()?;
    Ok(Json(Listed::whole(schedules::runs_of(&app.service, &caller, &id, limit).await?)))
}
