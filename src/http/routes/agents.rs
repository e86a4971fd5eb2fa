//! `/agents`: those that work can be given to.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use crate::domain::agent::{AgentSpec, KnownAgent};
use crate::http::asked::Asked;
use crate::http::caller::{MayAdmin, MayRead};
use crate::http::front::Front;
use crate::http::idempotency::{IdempotencyKey, settle};
use crate::http::ids::Ids;
use crate::http::json::Sent;
use crate::http::page::Listed;
use crate::http::params::NoParams;
use crate::http::problem::Answer;

/// The agents that tasks can be delegated to, with what their cards say.
#[utoipa::path(get, path = "/agents", operation_id = "listAgents",
    tag = "server", responses((status = 200, body = Listed<KnownAgent>)))]
pub(crate) async fn list(
    MayRead(caller): MayRead,
    State(front): State<Front>,
    _: NoParams,
) -> Answer<Json<Listed<KnownAgent>>> {
    Ok(Json(Listed::whole(front.runtime.agents(&caller))))
}

/// Add an agent of the tenant's own. Its token is never shown again; what its card says, `GET` tells.
#[utoipa::path(post, path = "/agents", operation_id = "createAgent", tag = "server", request_body = AgentSpec,
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 201, body = KnownAgent)))]
pub(crate) async fn create(
    MayAdmin(caller): MayAdmin,
    State(front): State<Front>,
    _: NoParams,
    asked: Asked,
    key: IdempotencyKey,
    sent: Sent<AgentSpec>,
) -> Answer<Response> {
    let made = front.runtime.create_agent(&caller, sent.value, key.with(sent.fingerprint)).await?;
    let made = settle(made, StatusCode::CREATED)?;
    let place = format!("/agents/{}", made.value.id);
    Ok(made.at(&asked, &place))
}

/// One agent.
#[utoipa::path(get, path = "/agents/{agent}", operation_id = "getAgent",
    tag = "server", responses((status = 200, body = KnownAgent)))]
pub(crate) async fn get(
    MayRead(caller): MayRead,
    State(front): State<Front>,
    ids: Ids,
    _: NoParams,
) -> Answer<Json<KnownAgent>> {
    let id: String = ids.get("agent")?;
    Ok(Json(front.runtime.agent(&caller, &id)?))
}

/// Remove an agent of the tenant's own. Nothing speaks to it any more: the tasks that it has end as `peer_removed`.
#[utoipa::path(delete, path = "/agents/{agent}", operation_id = "deleteAgent",
    tag = "server", responses((status = 204)))]
pub(crate) async fn delete(
    MayAdmin(caller): MayAdmin,
    State(front): State<Front>,
    ids: Ids,
    _: NoParams,
) -> Answer<StatusCode> {
    let id: String = ids.get("agent")?;
    front.runtime.delete_agent(&caller, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
