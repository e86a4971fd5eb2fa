//! `/http-tools`: services of the tenant's own, as tools of its agents.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use super::resource;
use crate::domain::http_tool::{HttpToolResource, HttpToolSpec};
use crate::http::app_state::AppState;
use crate::http::caller::MayAdmin;
use crate::http::idempotency::IdempotencyKey;
use crate::http::ids::Ids;
use crate::http::json::{JsonBody, KeyedBody};
use crate::http::page::Listed;
use crate::http::params::NoParams;
use crate::http::problem::HttpResult;
use crate::http::reply_preferences::ReplyPreferences;
use crate::service::resources::HttpTools;

/// Every HTTP tool of the caller's tenant. Secrets are never shown.
#[utoipa::path(get, path = "/http-tools", operation_id = "listHttpTools",
    tag = "tools", responses((status = 200, body = Listed<HttpToolResource>)))]
pub(crate) async fn list(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    _: NoParams,
) -> HttpResult<Json<Listed<HttpToolResource>>> {
    resource::list::<HttpTools>(&app, &caller)
}

/// Add a tool. If the request has no secret, one is generated. It is shown only in this response.
#[utoipa::path(post, path = "/http-tools", operation_id = "createHttpTool", tag = "tools", request_body = HttpToolSpec,
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 201, body = HttpToolResource, headers(("Location" = String)))))]
pub(crate) async fn create(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    _: NoParams,
    preferences: ReplyPreferences,
    key: IdempotencyKey,
    sent: KeyedBody<HttpToolSpec>,
) -> HttpResult<Response> {
    resource::create::<HttpTools>(&app, &caller, &preferences, key, sent, "/http-tools").await
}

/// One tool.
#[utoipa::path(get, path = "/http-tools/{tool}", operation_id = "getHttpTool",
    tag = "tools", responses((status = 200, body = HttpToolResource)))]
pub(crate) async fn get(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
) -> HttpResult<Json<HttpToolResource>> {
    let name: String = ids.get("tool")?;
    resource::get::<HttpTools>(&app, &caller, &name).await
}

/// Replace a tool. Without `secret` its secret is kept.
#[utoipa::path(put, path = "/http-tools/{tool}", operation_id = "replaceHttpTool",
    tag = "tools", request_body = HttpToolSpec,
    responses((status = 200, body = HttpToolResource)))]
pub(crate) async fn put(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
    JsonBody(sent): JsonBody<HttpToolSpec>,
) -> HttpResult<Json<HttpToolResource>> {
    let name: String = ids.get("tool")?;
    resource::put::<HttpTools>(&app, &caller, &name, sent).await
}

/// Remove a tool. Calls in progress end as usual.
#[utoipa::path(delete, path = "/http-tools/{tool}", operation_id = "deleteHttpTool",
    tag = "tools", responses((status = 204)))]
pub(crate) async fn delete(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
) -> HttpResult<StatusCode> {
    let name: String = ids.get("tool")?;
    resource::delete::<HttpTools>(&app, &caller, &name).await
}
