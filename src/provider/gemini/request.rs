//! Builds the body of `POST …/models/{model}:streamGenerateContent`.

use serde_json::{Map, Value, json};

use super::{WIRE, schema};
use crate::domain::model::ModelRequest;
use crate::domain::prompt::PromptCall;
use crate::domain::tool::ToolSpec;
use crate::provider::turns::{Conversation, Part, Speaker, Turn};
use crate::provider::{params, replay};

/// The documented placeholder for the signature of a call that another model made.
const FOREIGN_SIGNATURE: &str = "skip_thought_signature_validator";

/// The smallest budget, other than none, that every model with budgets accepts.
const MIN_THINKING: u64 = 512;

/// How a model's thinking is controlled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thinks {
    Not,
    /// By a budget of tokens.
    Budgeted,
    /// By a level; its calls must be sent back signed.
    Levelled,
}

pub(super) fn thinks(model: &str) -> Thinks {
    let name = model.rsplit('/').next().unwrap_or(model).to_lowercase();
    let is_older = ["gemini-1", "gemini-2.0", "gemma", "learnlm"].iter().any(|family| name.starts_with(family));
    if is_older {
        Thinks::Not
    } else if name.starts_with("gemini-2.5") {
        Thinks::Budgeted
    } else {
        Thinks::Levelled
    }
}

pub(super) fn body(request: &ModelRequest) -> Value {
    let conversation = Conversation::of(&request.messages);
    let contents: Vec<Value> = conversation.turns.iter().map(|turn| content(turn, &request.model)).collect();
    let mut body = json!({ "contents": contents });
    if !conversation.system.is_empty() {
        body["systemInstruction"] = json!({ "parts": [{ "text": conversation.system }] });
    }
    if !request.tools.is_empty() {
        let declared: Vec<Value> = request.tools.iter().map(|spec| tool(spec)).collect();
        body["tools"] = json!([{ "functionDeclarations": declared }]);
    }
    let config = config(request);
    if !config.is_empty() {
        body["generationConfig"] = Value::Object(config);
    }
    body
}

fn content(turn: &Turn<'_>, model: &str) -> Value {
    let role = match turn.speaker {
        Speaker::User => "user",
        Speaker::Model => "model",
    };
    let mut signatures: Option<&Value> = None;
    let mut parts = Vec::new();
    for part in &turn.parts {
        match part {
            Part::Text(text) => parts.push(json!({ "text": text })),
            Part::Replay(replay) => signatures = replay::opened(WIRE, model, Some(replay)),
            Part::Call { call, index } => parts.push(called(call, *index, signatures, model)),
            Part::Result { id: _, name, content } => {
                parts.push(json!({ "functionResponse": { "name": name, "response": { "output": content } } }));
            }
        }
    }
    json!({ "role": role, "parts": parts })
}

/// Only the first call of a reply is signed.
fn called(call: &PromptCall, place: usize, signatures: Option<&Value>, model: &str) -> Value {
    let args = match &call.arguments {
        Value::Object(_) => call.arguments.clone(),
        Value::String(raw) => match serde_json::from_str(raw) {
            Ok(Value::Object(args)) => Value::Object(args),
            Ok(_) | Err(_) => json!({ "arguments": raw }),
        },
        Value::Null => json!({}),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_)) => json!({ "arguments": other }),
    };
    let mut part = json!({ "functionCall": { "name": call.name, "args": args } });
    match signatures.and_then(|signatures| signatures.get(place.to_string())) {
        Some(signature) => part["thoughtSignature"] = signature.clone(),
        None if place == 0 && thinks(model) == Thinks::Levelled => part["thoughtSignature"] = FOREIGN_SIGNATURE.into(),
        None => {}
    }
    part
}

fn tool(spec: &ToolSpec) -> Value {
    json!({
        "name": spec.name,
        "description": spec.description,
        "parametersJsonSchema": schema::cleaned(&spec.input_schema),
    })
}

fn config(request: &ModelRequest) -> Map<String, Value> {
    let mut config = Map::new();
    for (name, value) in &request.params {
        let name = match name.as_str() {
            "maxTokens" => "maxOutputTokens",
            "stop" => {
                let texts = if value.is_array() { value.clone() } else { json!([value]) };
                config.insert("stopSequences".to_owned(), texts);
                continue;
            }
            same @ ("temperature" | "topP" | "seed" | "frequencyPenalty" | "presencePenalty") => same,
            // Handled below, or rejected when the run was accepted.
            _ => continue,
        };
        config.insert(name.to_owned(), value.clone());
    }
    let effort = request.params.get("reasoningEffort").and_then(Value::as_str);
    let length = request.params.get("maxTokens").and_then(Value::as_u64);
    if let Some(thinking) = thinking(&request.model, effort, length) {
        config.insert("thinkingConfig".to_owned(), thinking);
    }
    if let Some(form) = request.response_schema.as_ref().filter(|_| request.tools.is_empty()) {
        config.insert("responseMimeType".to_owned(), "application/json".into());
        config.insert("responseJsonSchema".to_owned(), schema::cleaned(form));
    }
    config
}

/// Thoughts are requested wherever the model has any. `length`: the requested length of the reply, which includes them.
fn thinking(model: &str, effort: Option<&str>, length: Option<u64>) -> Option<Value> {
    let mut thinking = json!({ "includeThoughts": true });
    match (thinks(model), effort) {
        (Thinks::Not, _) => return None,
        (Thinks::Budgeted | Thinks::Levelled, None) => {}
        (Thinks::Levelled, Some("none" | "minimal" | "low")) => thinking["thinkingLevel"] = "low".into(),
        (Thinks::Levelled, Some(_)) => thinking["thinkingLevel"] = "high".into(),
        (Thinks::Budgeted, Some(effort)) => thinking["thinkingBudget"] = budget(model, effort, length).into(),
    }
    Some(thinking)
}

fn budget(model: &str, effort: &str, length: Option<u64>) -> u64 {
    // Thinking cannot be turned off in the larger model.
    let least = if model.contains("pro") { 128 } else { 0 };
    let wanted = match effort {
        "none" => return least,
        "minimal" => MIN_THINKING,
        "low" => 1_024,
        "medium" => 8_192,
        _ => 24_576,
    };
    let room = length.map_or(wanted, params::room_for_thinking);
    if room < MIN_THINKING { least } else { wanted.min(room) }
}
