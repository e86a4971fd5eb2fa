//! `POST /mcp`: one message, and its response.

use axum::Json;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::call::{CallOutcome, McpRequest, call};
use super::client::{McpClient, VERSIONS, negotiated};
use super::envelope::{self, RpcMessage, RpcRequest};
use super::error::{McpError, RpcErrorKind};
use super::tasks;
use super::tools;
use super::waiting;
use crate::domain::caller::{Caller, Scope};
use crate::domain::fault::Code;
use crate::http::app_state::AppState;
use crate::http::caller::{authenticate, permit};
use crate::http::guard::check_origin;
use crate::http::json::read_value;
use crate::http::problem::Problem;
use crate::http::reply_preferences::ReplyPreferences;

/// Hosts of MCP: this agent as tools (Streamable HTTP, 2025-03-26 to 2026-07-28, without sessions).
#[utoipa::path(post, path = "/mcp", operation_id = "callMcp", tag = "agents", request_body = Object,
    params(("MCP-Protocol-Version" = Option<String>, Header, example = "2025-11-25")),
    responses((status = 200, content((Object = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "A notification was taken in")))]
pub(crate) async fn endpoint(State(app): State<AppState>, request: Request) -> Response {
    let mut id = Value::Null;
    match answer(&app, request, &mut id).await {
        Ok(response) => response,
        Err(error) => error.response(&id),
    }
}

/// Sets `id` to the request's id as soon as it is known, so that errors can carry it.
async fn answer(app: &AppState, request: Request, id: &mut Value) -> Result<Response, McpError> {
    let (mut parts, body) = request.into_parts();
    // Also on a server with keys: a web page must not use a key that its browser was once given.
    check_origin(app, &parts.headers, false)?;
    let caller = authenticate(app, &parts).await?;
    let ctx = authenticated_request(app, &mut parts, caller).await?;
    let request = Request::from_parts(parts.clone(), body);
    let read = read_value(app, request, &app.config.limits, &["application/json"]).await?;
    let request = match envelope::read(read.value, id)? {
        RpcMessage::Notification => return Ok(StatusCode::ACCEPTED.into_response()),
        RpcMessage::Request(request) => request,
    };
    let ctx = McpRequest { client: McpClient::of(&request, &parts.headers)?, ..ctx };
    let done = |result: &Value| Json(envelope::answer(&request.id, result)).into_response();
    Ok(match request.method.as_str() {
        "initialize" => done(&initialized(&ctx, &request)?),
        "server/discover" => done(&discovered(&ctx)),
        "ping" if !ctx.client.is_modern => done(&json!({})),
        "tools/list" => {
            // Each of these scopes permits a tool.
            if !ctx.caller.may(Scope::Run) && !ctx.caller.may(Scope::Approve) {
                permit(&ctx.caller, Scope::Read)?;
            }
            done(&ctx.client.cacheable_result(json!({ "tools": tools::listed(&app.config.a2a, &ctx.caller) })))
        }
        "tools/call" => match call(&ctx, request.params).await? {
            CallOutcome::Done(result) => done(&ctx.client.result(result)),
            CallOutcome::Waits(wait) => waiting::stream(&ctx, request.id, wait).await,
        },
        other => match tasks::answer(&ctx, &request).await? {
            Some(result) => done(&ctx.client.result(result)),
            None => return Err(no_method(&ctx, other)),
        },
    })
}

async fn authenticated_request(app: &AppState, parts: &mut Parts, caller: Caller) -> Result<McpRequest, McpError> {
    let preferences = ReplyPreferences::from_request_parts(parts, app).await;
    let ReplyPreferences { pass, trace, .. } = preferences.map_err(|Problem(fault)| McpError::from(fault))?;
    Ok(McpRequest { app: app.clone(), caller, pass, client: McpClient::default(), trace })
}

fn initialized(ctx: &McpRequest, request: &RpcRequest) -> Result<Value, McpError> {
    let Some(asked) = request.params.get("protocolVersion").and_then(Value::as_str) else {
        return Err(McpError::new(RpcErrorKind::InvalidParams, "`params.protocolVersion` is missing."));
    };
    Ok(json!({
        "protocolVersion": negotiated(asked),
        "capabilities": { "tools": {} },
        "serverInfo": implementation(ctx),
        "instructions": INSTRUCTIONS,
    }))
}

/// The response to `server/discover`, for clients that do not begin with `initialize`.
fn discovered(ctx: &McpRequest) -> Value {
    json!({
        "resultType": "complete",
        "supportedVersions": VERSIONS,
        "capabilities": { "tools": {}, "extensions": { tasks::EXTENSION: {} } },
        "instructions": INSTRUCTIONS,
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": { "io.modelcontextprotocol/serverInfo": implementation(ctx) },
    })
}

const INSTRUCTIONS: &str = "An agent that plans, works the plan off step by step, and answers. `ask` waits for the answer; if \
                            it is not there in time, the work goes on and `status` tells how it stands. Where it asks a \
                            person, it goes on when a person has answered.";

fn implementation(ctx: &McpRequest) -> Value {
    json!({ "name": "pes", "title": ctx.app.config.a2a.name, "version": env!("CARGO_PKG_VERSION") })
}

fn no_method(ctx: &McpRequest, name: &str) -> McpError {
    let status = if ctx.client.is_modern { Code::NotFound.status() } else { 200 };
    McpError::new(RpcErrorKind::MethodNotFound, format!("There is no method `{name}`.")).with_status(status)
}
