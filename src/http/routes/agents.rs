//! `/agents`: those that work can be given to.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use crate::domain::agent::{AgentSpec, KnownAgent};
use crate::http::app_state::AppState;
use crate::http::caller::{MayAdmin, MayRead};
use crate::http::idempotency::{IdempotencyKey, settle};
use crate::http::ids::Ids;
use crate::http::json::Sent;
use crate::http::page::Listed;
use crate::http::params::NoParams;
use crate::http::problem::HttpResult;
use crate::http::reply_preferences::ReplyPreferences;
use crate::service::resources::remote_agents;

/// The agents that tasks can be delegated to, with what their cards say.
#[utoipa::path(get, path = "/agents", operation_id = "listAgents",
    tag = "server", responses((status = 200, body = Listed<KnownAgent>)))]
pub(crate) async fn list(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    _: NoParams,
) -> HttpResult<Json<Listed<KnownAgent>>> {
    Ok(Json(Listed::whole(remote_agents::list(&app.service, &caller))))
}

/// Add an agent of the tenant's own. Its token is never shown again; what its card says, `GET` tells.
#[utoipa::path(post, path = "/agents", operation_id = "createAgent", tag = "server", request_body = AgentSpec,
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 201, body = KnownAgent)))]
pub(crate) async fn create(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    _: NoParams,
    preferences: ReplyPreferences,
    key: IdempotencyKey,
    sent: Sent<AgentSpec>,
) -> HttpResult<Response> {
    let made = remote_agents::create(&app.service, &caller, sent.value, key.with(sent.fingerprint)).await?;
    let made = settle(made, StatusCode::CREATED)?;
    let place = format!("/agents/{}", made.value.id);
    Ok(made.at(&preferences, &place))
}

/// One agent.
#[utoipa::path(get, path = "/agents/{agent}", operation_id = "getAgent",
    tag = "server", responses((status = 200, body = KnownAgent)))]
pub(crate) async fn get(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
) -> HttpResult<Json<KnownAgent>> {
    let id: String = ids.get("agent")?;
    Ok(Json(remote_agents::get(&app.service, &caller, &id)?))
}

/// Remove an agent of the tenant's own. Nothing speaks to it any more: the tasks that it has end as `peer_removed`.
#[utoipa::path(delete, path = "/agents/{agent}", operation_id = "deleteAgent",
    tag = "server", responses((status = 204)))]
pub(crate) async fn delete(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
) -> HttpResult<StatusCode> {
    let id: String = ids.get("agent")?;
    remote_agents::delete(&app.service, &caller, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
