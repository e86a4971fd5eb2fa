//! `/models`, `/tools`: what this server offers.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::domain::caller::Scope;
use crate::http::caller::{MayRead, permit};
use crate::http::front::Front;
use crate::http::page::Listed;
use crate::http::params::{NoParams, Params};
use crate::http::problem::Answer;

/// The models that runs may name. With `check=true` each is asked for a word, and `check` says what came of it; that
/// costs a few tokens, so it needs the scope `run`.
#[utoipa::path(get, path = "/models", tag = "server", params(("check" = Option<bool>, Query)),
    responses((status = 200, body = Object)))]
pub(crate) async fn models(
    MayRead(caller): MayRead,
    State(front): State<Front>,
    mut params: Params,
) -> Answer<Json<Value>> {
    let is_check = params.flag("check", false)?;
    params.finish()?;
    if !is_check {
        return Ok(Json(json!({ "items": front.runtime.models() })));
    }
    permit(&caller, Scope::Run)?;
    Ok(Json(json!({ "items": front.runtime.checked_models(&caller).await })))
}

/// The tools that the caller's agents may call.
#[utoipa::path(get, path = "/tools", tag = "server",
    responses((status = 200, body = Listed<crate::domain::tool::ToolSpec>)))]
pub(crate) async fn tools(MayRead(caller): MayRead, State(front): State<Front>, _: NoParams) -> Json<Value> {
    Json(json!({ "items": front.runtime.tools(&caller) }))
}
