//! `GET /threads/{thread}/state`: `PESAgentStateData`.

use axum::Json;
use axum::extract::State;
use serde_json::Value;

use crate::domain::state::PESAgentStateData;
use crate::http::app_state::AppState;
use crate::http::caller::MayRead;
use crate::http::ids::Ids;
use crate::http::params::Params;
use crate::http::problem::HttpResult;
use crate::service::threads;

/// The agent's state, now or as of an observation.
#[utoipa::path(get, path = "/threads/{thread}/state", operation_id = "getState", tag = "threads",
    params(("at" = Option<i64>, Query, description = "seq of an observation")), responses((status = 200, body = PESAgentStateData)))]
pub(crate) async fn get(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    ids: Ids,
    mut params: Params,
) -> HttpResult<Json<Value>> {
    let at = params.seq("at")?;
    params.finish()?;
    Ok(Json(threads::state(&app.service, &caller, &ids.thread()?, at).await?))
}
