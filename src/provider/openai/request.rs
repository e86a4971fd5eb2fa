//! What is sent: the body of `POST …/chat/completions`.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::compatible::{Dialect, Effort, Reasoning, Schema};
use super::{WIRE, order};
use crate::domain::model::ModelRequest;
use crate::domain::prompt::{PromptCall, PromptMessage};
use crate::domain::tool::ToolSpec;
use crate::provider::replay;

pub(super) fn body(dialect: &Dialect, request: &ModelRequest) -> Value {
    let in_turns = dialect.takes_turns.then(|| order::in_turns(&request.messages));
    let messages = in_turns.as_ref().unwrap_or(&request.messages);
    let messages: Vec<Value> = messages.iter().map(|said| message(dialect, &request.model, said)).collect();
    let mut body = json!({ "model": request.model, "messages": messages, "stream": true });
    if dialect.has_usage_option {
        body["stream_options"] = json!({ "include_usage": true });
    }
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(|spec| tool(spec)).collect();
    }
    if let Some(schema) = &request.response_schema {
        match dialect.schema_of(&request.model) {
            // Of a schema that names no member nothing but that it is an object can be held to.
            Schema::Whole if schema.get("properties").is_none() => {
                body["response_format"] = json!({ "type": "json_object" });
            }
            Schema::Whole => {
                body["response_format"] =
                    json!({ "type": "json_schema", "json_schema": { "name": "reply", "schema": schema } });
            }
            Schema::Object => body["response_format"] = json!({ "type": "json_object" }),
            Schema::None => {}
        }
    }
    params(dialect, &request.params, &mut body);
    body
}

fn message(dialect: &Dialect, model: &str, message: &PromptMessage) -> Value {
    match message {
        PromptMessage::System { content } => json!({ "role": "system", "content": content }),
        PromptMessage::User { content } => json!({ "role": "user", "content": content }),
        PromptMessage::Assistant { content, tool_calls, replay } => {
            let mut message = json!({ "role": "assistant", "content": content });
            if !tool_calls.is_empty() {
                message["tool_calls"] = tool_calls.iter().map(|made| call(dialect, made)).collect();
            }
            match (dialect.reasoning, replay::opened(WIRE, model, replay.as_ref())) {
                (Reasoning::Nothing, _) | (_, None) => {}
                (Reasoning::Content, Some(blocks)) => message["reasoning_content"] = blocks.clone(),
                (Reasoning::Details, Some(blocks)) => message["reasoning_details"] = blocks.clone(),
            }
            message
        }
        PromptMessage::Tool { tool_call_id, name: _, content } => {
            json!({ "role": "tool", "tool_call_id": id(dialect, tool_call_id), "content": content })
        }
    }
}

fn call(dialect: &Dialect, call: &PromptCall) -> Value {
    let arguments = match &call.arguments {
        Value::String(raw) => raw.clone(),
        value => value.to_string(),
    };
    let id = id(dialect, &call.id);
    json!({ "id": id, "type": "function", "function": { "name": call.name, "arguments": arguments } })
}

/// A call's id as this vendor takes it: the same for the call and its result.
fn id<'i>(dialect: &Dialect, id: &'i str) -> Cow<'i, str> {
    let is_short = id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_short || !dialect.has_short_ids {
        return Cow::Borrowed(id);
    }
    let digest = Sha256::digest(id.as_bytes());
    Cow::Owned(digest.iter().take(9).map(|byte| char::from(b'a' + byte % 26)).collect())
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
            "frequencyPenalty" => "frequency_penalty",
            "presencePenalty" => "presence_penalty",
            "seed" => dialect.seed,
            "reasoningEffort" => match dialect.effort {
                Effort::Plain => "reasoning_effort",
                Effort::Nested => {
                    body["reasoning"] = json!({ "effort": value });
                    continue;
                }
            },
            same @ ("temperature" | "stop") => same,
            // Refused when the run was accepted; a newer version's run may still carry it.
            _ => continue,
        };
        body[name] = value.clone();
    }
}
