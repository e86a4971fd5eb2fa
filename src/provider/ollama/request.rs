//! Builds the body of `POST …/api/chat`.

use serde_json::{Map, Value, json};

use crate::domain::model::ModelRequest;
use crate::domain::prompt::{PromptCall, PromptMessage};
use crate::domain::tool::ToolSpec;
use crate::provider::tool_schema::{self, Rules};

pub(super) fn body(request: &ModelRequest, num_ctx: u64) -> Value {
    let messages: Vec<Value> = request.messages.iter().map(message).collect();
    let mut body = json!({ "model": request.model, "messages": messages, "stream": true });
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(|spec| tool(spec)).collect();
    }
    if let Some(form) = request.response_schema.as_ref().filter(|_| request.tools.is_empty()) {
        body["format"] = Value::clone(form);
    }
    if let Some(think) = request.params.get("reasoningEffort").and_then(Value::as_str) {
        body["think"] = think_of(&request.model, think);
    }
    body["options"] = Value::Object(options(&request.params, num_ctx));
    body
}

/// Only gpt-oss accepts levels, and its thinking cannot be turned off; for other models it is on or off.
fn think_of(model: &str, effort: &str) -> Value {
    match effort {
        effort if !model.contains("gpt-oss") => (effort != "none").into(),
        "none" | "minimal" | "low" => "low".into(),
        "medium" => "medium".into(),
        _ => "high".into(),
    }
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
        PromptMessage::Tool { tool_call_id: _, name, content } => {
            json!({ "role": "tool", "tool_name": name, "content": content })
        }
    }
}

/// Arguments are an object in this API, not text.
fn call(call: &PromptCall) -> Value {
    let arguments = match &call.arguments {
        Value::Object(_) => call.arguments.clone(),
        Value::String(raw) => match serde_json::from_str(raw) {
            Ok(Value::Object(arguments)) => Value::Object(arguments),
            Ok(_) | Err(_) => json!({ "arguments": raw }),
        },
        Value::Null => json!({}),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_)) => json!({ "arguments": other }),
    };
    json!({ "function": { "name": call.name, "arguments": arguments } })
}

fn tool(spec: &ToolSpec) -> Value {
    let schema = tool_schema::fit(&spec.input_schema, Rules::Common);
    json!({
        "type": "function",
        "function": { "name": spec.name, "description": spec.description, "parameters": schema },
    })
}

fn options(params: &Map<String, Value>, num_ctx: u64) -> Map<String, Value> {
    // Without it Ollama uses a few thousand tokens and silently drops the rest of the prompt.
    let mut options = Map::from_iter([("num_ctx".to_owned(), num_ctx.into())]);
    for (name, value) in params {
        let name = match name.as_str() {
            "maxTokens" => "num_predict",
            "topP" => "top_p",
            "frequencyPenalty" => "frequency_penalty",
            "presencePenalty" => "presence_penalty",
            "stop" => {
                let texts = if value.is_array() { value.clone() } else { json!([value]) };
                options.insert("stop".to_owned(), texts);
                continue;
            }
            same @ ("temperature" | "seed") => same,
            // Handled above, or rejected when the run was accepted.
            _ => continue,
        };
        options.insert(name.to_owned(), value.clone());
    }
    options
}
