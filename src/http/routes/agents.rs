//! `/agents`: the remote agents that work can be delegated to.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;

use super::resource;
use crate::domain::agent::{AgentSpec, KnownAgent};
use crate::http::app_state::AppState;
use crate::http::caller::{MayAdmin, MayRead};
use crate::http::idempotency::IdempotencyKey;
use crate::http::ids::Ids;
use crate::http::json::KeyedBody;
use crate::http::page::Listed;
use crate::http::params::NoParams;
use crate::http::problem::HttpResult;
use crate::http::reply_preferences::ReplyPreferences;
use crate::service::resources::{RemoteAgents, Resource};

/// The agents that tasks can be delegated to, with the contents of their cards.
#[utoipa::path(get, path = "/agents", operation_id = "listAgents",
    tag = "server", responses((status = 200, body = Listed<KnownAgent>)))]
pub(crate) async fn list(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    _: NoParams,
) -> HttpResult<Json<Listed<KnownAgent>>> {
    resource::list::<RemoteAgents>(&app, &caller)
}

/// Add an agent of the tenant. Its token is never shown again. `GET` shows what its card says.
#[utoipa::path(post, path = "/agents", operation_id = "createAgent", tag = "server", request_body = AgentSpec,
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 201, body = KnownAgent, headers(("Location" = String)))))]
pub(crate) async fn create(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    _: NoParams,
    preferences: ReplyPreferences,
    key: IdempotencyKey,
    sent: KeyedBody<AgentSpec>,
) -> HttpResult<Response> {
    resource::create::<RemoteAgents>(&app, &caller, &preferences, key, sent, "/agents").await
}

/// One agent. For an agent of the tenant, the ETag is the version of its stored definition.
#[utoipa::path(get, path = "/agents/{agent}", operation_id = "getAgent",
    tag = "server", responses((status = 200, body = KnownAgent, headers(("ETag" = String)))))]
pub(crate) async fn get(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
) -> HttpResult<Response> {
    let id: String = ids.get("agent")?;
    Ok(resource::tagged(RemoteAgents::get(&app.service, &caller, &id).await?))
}

/// Replace an agent of the tenant. Without `token` its token is kept. Its tasks continue.
#[utoipa::path(put, path = "/agents/{agent}", operation_id = "replaceAgent", tag = "server", request_body = AgentSpec,
    params(("If-Match" = Option<String>, Header), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 200, body = KnownAgent, headers(("ETag" = String)))))]
pub(crate) async fn put(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
    key: IdempotencyKey,
    headers: HeaderMap,
    sent: KeyedBody<AgentSpec>,
) -> HttpResult<Response> {
    let id: String = ids.get("agent")?;
    resource::put_once::<RemoteAgents>(&app, &caller, &id, &headers, key, sent).await
}

/// Change an agent of the tenant by a merge patch (RFC 7386). `token: null` removes its token.
#[utoipa::path(patch, path = "/agents/{agent}", operation_id = "updateAgent", tag = "server",
    request_body(content = Object, content_type = "application/merge-patch+json"),
    params(("If-Match" = Option<String>, Header), ("Idempotency-Key" = Option<String>, Header)),
    responses((status = 200, body = KnownAgent, headers(("ETag" = String)))))]
pub(crate) async fn patch(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
    key: IdempotencyKey,
    request: Request,
) -> HttpResult<Response> {
    let id: String = ids.get("agent")?;
    resource::patch_once::<RemoteAgents>(&app, &caller, &id, key, request).await
}

/// Remove an agent of the tenant. No more requests are sent to it: its tasks end as `peer_removed`.
#[utoipa::path(delete, path = "/agents/{agent}", operation_id = "deleteAgent",
    tag = "server", responses((status = 204)))]
pub(crate) async fn delete(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
) -> HttpResult<StatusCode> {
    let id: String = ids.get("agent")?;
    resource::delete::<RemoteAgents>(&app, &caller, &id).await
}
