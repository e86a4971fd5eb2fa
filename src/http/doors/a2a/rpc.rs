//! JSON-RPC 2.0: one request, one response.

use axum::extract::{FromRequestParts, Request, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde_json::{Value, json};

use super::caller::{A2aRequest, authenticate_caller, extensions, version};
use super::error::A2aError;
use super::operations::{OperationResult, perform};
use super::stream::event_response;
use crate::a2a::fault::{Error, Fault};
use crate::a2a::wire::{Method, Version};
use crate::domain::caller::Caller;
use crate::domain::fault::Code;
use crate::http::app_state::AppState;
use crate::http::json::read_value;
use crate::http::metrics::WaitedForRun;
use crate::http::problem::Problem;
use crate::http::reply_preferences::ReplyPreferences;

/// The validated envelope of a request.
struct Envelope<'v> {
    method: &'v str,
    params: Value,
}

/// Agents among themselves: A2A 1.0 and 0.3 over JSON-RPC.
///
/// `A2A-Version: 1.0` chooses the version, 0.3 otherwise. The same operations are served over HTTP+JSON below this path:
/// `POST /a2a/message:send`, `GET /a2a/tasks`, `GET /a2a/tasks/{id}`, `POST /a2a/tasks/{id}:cancel` and so on.
#[utoipa::path(post, path = "/a2a", operation_id = "callA2a", tag = "agents", request_body = Object,
    params(("A2A-Version" = Option<String>, Header, example = "1.0"), ("A2A-Extensions" = Option<String>, Header)),
    responses((status = 200, content((Object = "application/json"), (String = "text/event-stream")))))]
pub(crate) async fn rpc(State(app): State<AppState>, request: Request) -> Response {
    let mut id = Value::Null;
    match answer(&app, request, &mut id).await {
        Ok(response) => response,
        Err(error) => error.rpc_response(&id),
    }
}

/// Sets `id` to the request's id as soon as it is known, so that errors can carry it.
async fn answer(app: &AppState, request: Request, id: &mut Value) -> Result<Response, A2aError> {
    let (mut parts, body) = request.into_parts();
    let caller = authenticate_caller(app, &parts).await?;
    let preferences =
        ReplyPreferences::from_request_parts(&mut parts, app).await.map_err(|Problem(fault)| A2aError::from(fault))?;
    let document = read(app, &caller, Request::from_parts(parts.clone(), body)).await?;
    let envelope = envelope(&document, id)?;
    let version = version(&parts)?.unwrap_or(Version::V03);
    let extensions = extensions(app, &parts.headers)?;
    let method = Method::named(version, envelope.method).ok_or_else(|| no_method(version, envelope.method))?;
    let ctx = A2aRequest::permitted(app, caller, method, version, preferences)?;
    let success = |id: &Value, result: Value| json!({ "jsonrpc": "2.0", "id": id, "result": result });
    let mut response = match perform(&ctx, &envelope.params).await? {
        OperationResult::Value(result) => Json(success(id, result)).into_response(),
        OperationResult::Awaited(result) => (Extension(WaitedForRun), Json(success(id, result))).into_response(),
        OperationResult::Events(events) => {
            let id = id.clone();
            event_response(&ctx, events, move |event| match event {
                Ok(event) => success(&id, event),
                Err(error) => error.rpc_body(&id),
            })
        }
    };
    if let Some(extensions) = extensions {
        response.headers_mut().insert("a2a-extensions", axum::http::HeaderValue::from_static(extensions));
    }
    Ok(response)
}

/// The method is in the body, so the scope is not known yet. The limits of the caller's key keep a large body out.
async fn read(app: &AppState, caller: &Caller, request: Request) -> Result<Value, A2aError> {
    let read = read_value(app, request, app.a2a_limits(caller), &["application/json", "application/a2a+json"]).await;
    read.map(|read| read.value).map_err(|fault| {
        if fault.code == Code::Malformed { Fault::new(Error::Parse, fault.detail).into() } else { fault.into() }
    })
}

fn envelope<'v>(document: &'v Value, id: &mut Value) -> Result<Envelope<'v>, A2aError> {
    let invalid = |how: &str| A2aError::from(Fault::new(Error::InvalidRequest, how));
    let Some(members) = document.as_object() else {
        return Err(invalid("Send one request object; batches are not answered."));
    };
    match members.get("id") {
        Some(known @ (Value::String(_) | Value::Number(_))) => *id = known.clone(),
        Some(Value::Null) => {}
        Some(Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
            return Err(invalid("`id` is a text or a number."));
        }
        None => return Err(invalid("`id` is missing; nothing is done without an answer.")),
    }
    if members.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(invalid("`jsonrpc` must be \"2.0\"."));
    }
    let Some(method) = members.get("method").and_then(Value::as_str) else {
        return Err(invalid("`method` is missing."));
    };
    let params = members.get("params").cloned().unwrap_or_else(|| json!({}));
    Ok(Envelope { method, params })
}

fn no_method(version: Version, name: &str) -> Fault {
    let other = Version::NAMED.into_iter().find(|it| Method::named(*it, name).is_some());
    let detail = match other {
        Some(other) => format!("{} has no `{name}`; send `A2A-Version: {}`.", version.as_str(), other.as_str()),
        None => format!("There is no method `{name}`."),
    };
    Fault::new(Error::MethodNotFound, detail)
}
