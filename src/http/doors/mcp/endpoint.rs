//! `POST /mcp`: one message, and its answer.

use axum::Json;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::call::{Asker, Called, call};
use super::client::{Client, VERSIONS, negotiated};
use super::envelope::{self, Message, RpcRequest};
use super::refusal::{Error, Refusal};
use super::tasks;
use super::tools;
use super::waiting;
use crate::domain::caller::{Caller, Scope};
use crate::domain::fault::Code;
use crate::http::app_state::AppState;
use crate::http::caller::{authenticate, permit};
use crate::http::guard::origin_is_ours;
use crate::http::json::read_value;
use crate::http::problem::Problem;
use crate::http::reply_preferences::ReplyPreferences;

/// Hosts of MCP: this agent as tools (Streamable HTTP, 2025-06-18 to 2026-07-28, without sessions).
#[utoipa::path(post, path = "/mcp", operation_id = "callMcp", tag = "agents", request_body = Object,
    params(("MCP-Protocol-Version" = Option<String>, Header, example = "2025-11-25")),
    responses((status = 200, body = Object), (status = 202, description = "A notification was taken in")))]
pub(crate) async fn endpoint(State(app): State<AppState>, request: Request) -> Response {
    let mut id = Value::Null;
    match answer(&app, request, &mut id).await {
        Ok(response) => response,
        Err(refusal) => refusal.of(&id),
    }
}

/// `id` becomes the request's as soon as it is known.
async fn answer(app: &AppState, request: Request, id: &mut Value) -> Result<Response, Refusal> {
    let (mut parts, body) = request.into_parts();
    // On a server with keys, too: a page must not use a key that its browser was once given.
    origin_is_ours(app, &parts.headers, false)?;
    let caller = authenticate(app, &parts).await?;
    let asker = asker(app, &mut parts, caller).await?;
    let request = Request::from_parts(parts.clone(), body);
    let read = read_value(request, &app.config.limits, &["application/json"]).await?;
    let request = match envelope::read(read.value, id)? {
        Message::Notification => return Ok(StatusCode::ACCEPTED.into_response()),
        Message::Request(request) => request,
    };
    let asker = Asker { client: Client::of(&request, &parts.headers)?, ..asker };
    let done = |result: &Value| Json(envelope::answer(&request.id, result)).into_response();
    Ok(match request.method.as_str() {
        "initialize" => done(&initialized(&asker, &request)?),
        "server/discover" => done(&discovered(&asker)),
        "ping" if !asker.client.is_modern => done(&json!({})),
        "tools/list" => {
            permit(&asker.caller, Scope::Read).or_else(|_| permit(&asker.caller, Scope::Run))?;
            done(&asker.client.kept_result(json!({ "tools": tools::listed(&app.config.a2a, &asker.caller) })))
        }
        "tools/call" => match call(&asker, request.params).await? {
            Called::Done(result) => done(&asker.client.result(result)),
            Called::Waits(wait) => waiting::stream(&asker, request.id, wait).await,
        },
        other => match tasks::answer(&asker, &request).await? {
            Some(result) => done(&asker.client.result(result)),
            None => return Err(no_method(&asker, other)),
        },
    })
}

async fn asker(app: &AppState, parts: &mut Parts, caller: Caller) -> Result<Asker, Refusal> {
    let preferences = ReplyPreferences::from_request_parts(parts, app).await;
    let ReplyPreferences { pass, trace, .. } = preferences.map_err(|Problem(fault)| Refusal::from(fault))?;
    Ok(Asker { app: app.clone(), caller, pass, client: Client::default(), trace })
}

fn initialized(asker: &Asker, request: &RpcRequest) -> Result<Value, Refusal> {
    let Some(asked) = request.params.get("protocolVersion").and_then(Value::as_str) else {
        return Err(Refusal::new(Error::InvalidParams, "`params.protocolVersion` is missing."));
    };
    Ok(json!({
        "protocolVersion": negotiated(asked),
        "capabilities": { "tools": {} },
        "serverInfo": implementation(asker),
        "instructions": INSTRUCTIONS,
    }))
}

/// Who has not begun with `initialize` learns the same so.
fn discovered(asker: &Asker) -> Value {
    json!({
        "resultType": "complete",
        "supportedVersions": VERSIONS,
        "capabilities": { "tools": {}, "extensions": { tasks::EXTENSION: {} } },
        "instructions": INSTRUCTIONS,
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": { "io.modelcontextprotocol/serverInfo": implementation(asker) },
    })
}

const INSTRUCTIONS: &str = "An agent that plans, works the plan off step by step, and answers. `ask` waits for the answer; if \
                            it is not there in time, the work goes on and `status` tells how it stands. Where it asks a \
                            person, it goes on when a person has answered.";

fn implementation(asker: &Asker) -> Value {
    json!({ "name": "pes", "title": asker.app.config.a2a.name, "version": env!("CARGO_PKG_VERSION") })
}

fn no_method(asker: &Asker, name: &str) -> Refusal {
    let status = if asker.client.is_modern { Code::NotFound.status() } else { 200 };
    Refusal::new(Error::MethodNotFound, format!("There is no method `{name}`.")).with_status(status)
}
