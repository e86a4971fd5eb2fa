//! `/models`, `/tools`, `/agents`: what this server offers.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::http::caller::MayRead;
use crate::http::front::Front;
use crate::http::page::Listed;
use crate::http::params::NoParams;
use crate::http::problem::Answer;

/// The models that runs may name.
#[utoipa::path(get, path = "/models", tag = "server", responses((status = 200, body = Object)))]
pub(crate) async fn models(_: MayRead, State(front): State<Front>, _: NoParams) -> Json<Value> {
    Json(json!({ "items": front.runtime.models() }))
}

/// The tools that the caller's agents may call.
#[utoipa::path(get, path = "/tools", tag = "server",
    responses((status = 200, body = Listed<crate::domain::tool::ToolSpec>)))]
pub(crate) async fn tools(MayRead(caller): MayRead, State(front): State<Front>, _: NoParams) -> Json<Value> {
    Json(json!({ "items": front.runtime.tools(&caller) }))
}

/// The agents that tasks can be delegated to.
#[utoipa::path(get, path = "/agents", tag = "server", responses((status = 200, body = Listed<Object>)))]
pub(crate) async fn agents(_: MayRead, _: NoParams) -> Answer<Json<Listed<Value>>> {
    Ok(Json(Listed::whole(Vec::new())))
}
