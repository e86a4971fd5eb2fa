//! What is sent: the body of `POST …/chat/completions`.

use serde_json::{Map, Value, json};

use super::compatible::Dialect;
use crate::domain::model::ModelRequest;
use crate::domain::prompt::{PromptCall, PromptMessage};
use crate::domain::tool::ToolSpec;

pub(super) fn body(dialect: &Dialect, request: &ModelRequest) -> Value {
    let messages: Vec<Value> = request.messages.iter().map(message).collect();
    let mut body = json!({
        "model": request.model,
        "messages": messages,
        "stream": true,
        "stream_options": { "include_usage": true },
    });
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(|spec| tool(spec)).collect();
    }
    if let Some(schema) = request.response_schema.as_ref().filter(|_| dialect.has_schema) {
        body["response_format"] =
            json!({ "type": "json_schema", "json_schema": { "name": "reply", "schema": schema } });
    }
    params(dialect, &request.params, &mut body);
    body
}

fn message(message: &PromptMessage) -> Value {
    match message {
        PromptMessage::System { content } => json!({ "role": "system", "content": content }),
        PromptMessage::User { content } => json!({ "role": "user", "content": content }),
        PromptMessage::Assistant { content, tool_calls, replay: _ } => {
            let mut message = json!({ "role": "assistant", "content": content });
            if !tool_calls.is_empty() {
                message["tool_calls"] = tool_calls.iter().map(call).collect();
            }
            message
        }
        PromptMessage::Tool { tool_call_id, name: _, content } => {
            json!({ "role": "tool", "tool_call_id": tool_call_id, "content": content })
        }
    }
}

fn call(call: &PromptCall) -> Value {
    let arguments = match &call.arguments {
        Value::String(raw) => raw.clone(),
        value => value.to_string(),
    };
    json!({ "id": call.id, "type": "function", "function": { "name": call.name, "arguments": arguments } })
}

fn tool(spec: &ToolSpec) -> Value {
    json!({
        "type": "function",
        "function": { "name": spec.name, "description": spec.description, "parameters": spec.input_schema },
    })
}

fn params(dialect: &Dialect, params: &Map<String, Value>, body: &mut Value) {
    for (name, value) in params {
        let name = match name.as_str() {
            "maxTokens" => dialect.max_tokens,
            "topP" => "top_p",
            "reasoningEffort" => "reasoning_effort",
            same @ ("temperature" | "stop" | "seed") => same,
            // Refused when the run was accepted; a newer version's run may still carry it.
            _ => continue,
        };
        body[name] = value.clone();
    }
}
