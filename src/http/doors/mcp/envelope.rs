//! JSON-RPC 2.0 as MCP uses it: one message in a body. There are no batches since 2025-06-18.

use serde_json::{Map, Value, json};

use super::refusal::{Error, Refusal};

/// What a body says.
#[derive(Debug)]
pub(super) enum Message {
    Request(RpcRequest),
    /// Nothing is answered to it.
    Notification,
}

/// A request that wants an answer.
#[derive(Debug)]
pub(super) struct RpcRequest {
    pub(super) id: Value,
    pub(super) method: String,
    pub(super) params: Map<String, Value>,
}

/// `id` becomes the request's as soon as it is known.
pub(super) fn read(document: Value, id: &mut Value) -> Result<Message, Refusal> {
    let invalid = |how: &str| Refusal::new(Error::InvalidRequest, how).with_status(400);
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
        return Ok(Message::Notification);
    }
    let params = match members.remove("params") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(params)) => params,
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            return Err(Refusal::new(Error::InvalidParams, "`params` is an object.").with_status(400));
        }
    };
    Ok(Message::Request(RpcRequest { id: id.clone(), method, params }))
}

/// The answer to the request of this id.
pub(super) fn answer(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}
