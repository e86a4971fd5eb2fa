//! `/threads/{thread}/agent-state`: the application's own state.

use axum::extract::State;
use axum::http::HeaderMap;
use serde::Deserialize;
use serde_json::Value;

use crate::domain::thread::AgentState;
use crate::http::app_state::AppState;
use crate::http::caller::{MayRead, MayRun};
use crate::http::etag::Tagged;
use crate::http::ids::Ids;
use crate::http::json::JsonBody;
use crate::http::params::NoParams;
use crate::http::problem::HttpResult;
use crate::service::if_match::IfMatch;
use crate::service::threads;

/// The application's state. `version`, if given, must be the current version, like `If-Match`.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewAgentState {
    data: Value,
    version: Option<i64>,
}

/// The application's state and its version.
#[utoipa::path(get, path = "/threads/{thread}/agent-state", operation_id = "getAgentState", tag = "threads",
    responses((status = 200, body = AgentState, headers(("ETag" = String)))))]
pub(crate) async fn get(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
) -> HttpResult<Tagged<AgentState>> {
    Ok(tagged(threads::agent_state(&app.service, &caller, &ids.thread()?).await?))
}

/// Replace the application's state.
#[utoipa::path(put, path = "/threads/{thread}/agent-state", operation_id = "replaceAgentState",
    tag = "threads", request_body = NewAgentState,
    params(("If-Match" = Option<String>, Header)),
    responses((status = 200, body = AgentState, headers(("ETag" = String)))))]
pub(crate) async fn put(
    MayRun(caller): MayRun,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
    headers: HeaderMap,
    JsonBody(sent): JsonBody<NewAgentState>,
) -> HttpResult<Tagged<AgentState>> {
    let id = ids.thread()?;
    let precondition = match IfMatch::of(&headers) {
        IfMatch::Absent => sent.version.map_or(IfMatch::Absent, |version| IfMatch::Versions(vec![version])),
        precondition @ (IfMatch::Any | IfMatch::Versions(_)) => precondition,
    };
    let current = threads::agent_state(&app.service, &caller, &id).await?.version;
    let based_on = precondition.against(current)?;
    Ok(tagged(threads::put_agent_state(&app.service, &caller, &id, sent.data, based_on).await?))
}

fn tagged(state: AgentState) -> Tagged<AgentState> {
    Tagged { version: state.version, value: state }
}
