//! JSON-RPC 2.0 as MCP uses it: one message in a body. Batches were removed in 2025-06-18.

use serde_json::{Map, Value, json};

use super::error::{McpError, RpcErrorKind};

/// The message in a body.
#[derive(Debug)]
pub(super) enum RpcMessage {
    Request(RpcRequest),
    /// It gets no response.
    Notification,
}

/// A request that expects a response.
#[derive(Debug)]
pub(super) struct RpcRequest {
    pub(super) id: Value,
    pub(super) method: String,
    pub(super) params: Map<String, Value>,
}

/// Sets `id` to the request's id as soon as it is known, so that errors can carry it.
pub(super) fn read(document: Value, id: &mut Value) -> Result<RpcMessage, McpError> {
    let invalid = |how: &str| McpError::new(RpcErrorKind::InvalidRequest, how).with_status(400);
    let Value::Object(mut members) = document else {
        return Err(invalid("Send one message; batches are not answered."));
    };
    match members.get("id") {
        Some(known @ (Value::String(_) | Value::Number(_))) => *id = known.clone(),
        Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
            return Err(invalid("`id` is a text or a number."));
        }
        None => {}
    }
    if members.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(invalid("`jsonrpc` must be \"2.0\"."));
    }
    let Some(Value::String(method)) = members.remove("method") else {
        return Err(invalid("`method` is missing; this server asks nothing, so there is nothing to answer."));
    };
    if id.is_null() {
        return Ok(RpcMessage::Notification);
    }
    let params = match members.remove("params") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(params)) => params,
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            return Err(McpError::new(RpcErrorKind::InvalidParams, "`params` is an object.").with_status(400));
        }
    };
    Ok(RpcMessage::Request(RpcRequest { id: id.clone(), method, params }))
}

/// The response to the request with this id.
pub(super) fn answer(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}
