//! `/mcp-servers`: where tools come from, and which of them are trusted.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::resource;
use crate::http::app_state::AppState;
use crate::http::caller::MayAdmin;
use crate::http::idempotency::IdempotencyKey;
use crate::http::ids::Ids;
use crate::http::json::{JsonBody, KeyedBody, OptionalJsonBody};
use crate::http::page::Listed;
use crate::http::params::NoParams;
use crate::http::problem::HttpResult;
use crate::http::reply_preferences::ReplyPreferences;
use crate::mcp::{Endpoint, ServerView};
use crate::service::resources::{self, McpServers};

/// Every server that the tenant's agents may use, with its health and its tools.
#[utoipa::path(get, path = "/mcp-servers", operation_id = "listMcpServers",
    tag = "tools", responses((status = 200, body = Listed<ServerView>)))]
pub(crate) async fn list(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    _: NoParams,
) -> HttpResult<Json<Listed<ServerView>>> {
    resource::list::<McpServers>(&app, &caller)
}

/// Add a server. Its tools appear once it has been reached, which `health` shows.
#[utoipa::path(post, path = "/mcp-servers", operation_id = "createMcpServer", tag = "tools", request_body = Endpoint,
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 201, body = ServerView, headers(("Location" = String)))))]
pub(crate) async fn create(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    _: NoParams,
    preferences: ReplyPreferences,
    key: IdempotencyKey,
    sent: KeyedBody<Endpoint>,
) -> HttpResult<Response> {
    resource::create::<McpServers>(&app, &caller, &preferences, key, sent, "/mcp-servers").await
}

/// One server, with its health and its tools.
#[utoipa::path(get, path = "/mcp-servers/{name}", operation_id = "getMcpServer",
    tag = "tools", responses((status = 200, body = ServerView)))]
pub(crate) async fn get(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
) -> HttpResult<Json<ServerView>> {
    let name: String = ids.get("name")?;
    resource::get::<McpServers>(&app, &caller, &name).await
}

/// Change it by a merge patch; of the operator's servers only `enabled`, for this tenant.
#[utoipa::path(patch, path = "/mcp-servers/{name}", operation_id = "updateMcpServer",
    tag = "tools", request_body = Object,
    responses((status = 200, body = ServerView)))]
pub(crate) async fn patch(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
    JsonBody(sent): JsonBody<Map<String, Value>>,
) -> HttpResult<Json<ServerView>> {
    let name: String = ids.get("name")?;
    resource::patch::<McpServers>(&app, &caller, &name, sent).await
}

/// Remove one of the tenant's own servers, with the approvals of its tools.
#[utoipa::path(delete, path = "/mcp-servers/{name}", operation_id = "deleteMcpServer",
    tag = "tools", responses((status = 204)))]
pub(crate) async fn delete(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
) -> HttpResult<StatusCode> {
    let name: String = ids.get("name")?;
    resource::delete::<McpServers>(&app, &caller, &name).await
}

/// The definition of a tool that is approved.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Approval {
    /// The tool's `hash` as it was shown; if given, it must still be the current one.
    hash: Option<String>,
}

/// Approve the current definition of this tool. Approving it again changes nothing.
#[utoipa::path(post, path = "/mcp-servers/{name}/tools/{tool}/approve", operation_id = "approveMcpTool",
    tag = "tools", request_body = Option<Approval>,
    responses((status = 200, body = ServerView)))]
pub(crate) async fn approve(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
    OptionalJsonBody(sent): OptionalJsonBody<Approval>,
) -> HttpResult<Json<ServerView>> {
    let (name, tool): (String, String) = (ids.get("name")?, ids.mcp_tool());
    Ok(Json(resources::approve_tool(&app.service, &caller, &name, &tool, sent.hash.as_deref()).await?))
}
