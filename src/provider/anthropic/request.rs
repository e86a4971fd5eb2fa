//! Builds the body of `POST …/v1/messages`.

use serde_json::{Map, Value, json};

use super::WIRE;
use super::form::{FORM_TOOL, Form, form};
use super::models::{Generation, generation};
use crate::domain::model::ModelRequest;
use crate::domain::prompt::PromptCall;
use crate::domain::tokens;
use crate::domain::tool::ToolSpec;
use crate::provider::tool_schema::{self, Rules};
use crate::provider::turns::{Conversation, Part, Speaker, Turn};
use crate::provider::{ModelFacts, params, replay};

/// The output limit if nothing is known about the model.
const MAX_OUTPUT: u64 = 8_192;
/// The minimum that is requested even if the prompt seems to leave less room, because its size is overestimated.
const MIN_OUTPUT: u64 = 1_024;
/// The smallest thinking budget that the API accepts.
const MIN_THINKING: u64 = 1_024;

/// The output limit: what the model can write, within the room that the prompt leaves in the context window. The API
/// rejects a larger value instead of reducing it.
pub(super) fn most_output(request: &ModelRequest, facts: ModelFacts) -> u64 {
    let most = facts.max_output.unwrap_or(MAX_OUTPUT);
    let room =
        facts.context_window.map(|window| window.saturating_sub(tokens::of_prompt(&request.messages, &request.tools)));
    room.map_or(most, |room| most.min(room.max(MIN_OUTPUT)))
}

pub(super) fn body(request: &ModelRequest, most_output: u64) -> Value {
    let conversation = Conversation::of(&request.messages);
    let thinking = thinking(request, &conversation, most_output);
    let mut body = json!({
        "model": request.model,
        "max_tokens": asked_output(request).unwrap_or(most_output),
        "stream": true,
    });
    if !conversation.system.is_empty() {
        body["system"] = conversation.system.clone().into();
    }
    body["messages"] = conversation.turns.iter().map(|turn| message(turn, request, thinking.is_some())).collect();
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(|spec| tool(spec)).collect();
    }
    let mut output = Map::new();
    if let Some(thinking) = thinking {
        if thinking["type"] == "adaptive" {
            output.insert("effort".to_owned(), effort(request).into());
        }
        body["thinking"] = thinking;
    }
    match (&request.response_schema, form(request, body.get("thinking").is_some())) {
        (Some(schema), Form::Native) => {
            output.insert("format".to_owned(), json!({ "type": "json_schema", "schema": schema }));
        }
        (Some(schema), Form::Tool) => {
            let description = "The whole reply, in this form.";
            body["tools"] = json!([{ "name": FORM_TOOL, "description": description, "input_schema": schema }]);
            body["tool_choice"] = json!({ "type": "tool", "name": FORM_TOOL });
        }
        (Some(_), Form::Words) | (None, _) => {}
    }
    if !output.is_empty() {
        body["output_config"] = Value::Object(output);
    }
    add_params(&request.params, &mut body);
    body
}

/// The requested length of the reply, which includes its thinking.
fn asked_output(request: &ModelRequest) -> Option<u64> {
    request.params.get("maxTokens").and_then(Value::as_u64)
}

/// Whether the reply to this request is sent as the arguments of a tool.
pub(super) fn has_form_tool(request: &ModelRequest, most_output: u64) -> bool {
    let conversation = Conversation::of(&request.messages);
    form(request, thinking(request, &conversation, most_output).is_some()) == Form::Tool
}

/// `None` if thinking is not requested, if the requested length leaves no room for it, or if this request continues a
/// tool loop of another model, whose thinking blocks would be missing.
fn thinking(request: &ModelRequest, conversation: &Conversation<'_>, most_output: u64) -> Option<Value> {
    let asked = request.params.get("reasoningEffort")?.as_str()?;
    if asked == "none" || !goes_on(request, conversation) {
        return None;
    }
    let budget = match asked {
        "minimal" => MIN_THINKING,
        "low" => 4_096,
        "medium" => 10_240,
        "high" => 20_480,
        _ => 32_768,
    };
    let room = match asked_output(request).map(|asked| asked.min(most_output)) {
        Some(length) => params::room_for_thinking(length),
        None => most_output / 2,
    };
    let budget = budget.min(room);
    match generation(&request.model) {
        Generation::Silent => None,
        Generation::Budgeted if budget < MIN_THINKING => None,
        Generation::Budgeted => Some(json!({ "type": "enabled", "budget_tokens": budget })),
        Generation::Adaptive => Some(json!({ "type": "adaptive" })),
        Generation::AdaptiveOnly => Some(json!({ "type": "adaptive", "display": "summarized" })),
    }
}

fn effort(request: &ModelRequest) -> &str {
    let asked = request.params.get("reasoningEffort").and_then(Value::as_str).unwrap_or_default();
    match asked {
        "minimal" => "low",
        "xhigh" if generation(&request.model) == Generation::Adaptive => "high",
        asked => asked,
    }
}

/// Whether thinking is possible: either this request does not continue a tool loop, or the last reply contains thinking
/// of this model.
fn goes_on(request: &ModelRequest, conversation: &Conversation<'_>) -> bool {
    let Some([reply, answer]) = conversation.turns.last_chunk::<2>() else { return true };
    let is_loop = matches!(answer.parts.first(), Some(Part::Result { .. }));
    let has_own = reply.parts.iter().any(|part| match part {
        Part::Replay(replay) => replay::opened(WIRE, &request.model, Some(replay)).is_some(),
        Part::Text(_) | Part::Call { .. } | Part::Result { .. } => false,
    });
    !is_loop || has_own
}

fn message(turn: &Turn<'_>, request: &ModelRequest, thinks: bool) -> Value {
    let role = match turn.speaker {
        Speaker::User => "user",
        Speaker::Model => "assistant",
    };
    let blocks: Vec<Value> = turn.parts.iter().flat_map(|part| block(part, request, thinks)).collect();
    json!({ "role": role, "content": blocks })
}

fn block(part: &Part<'_>, request: &ModelRequest, thinks: bool) -> Vec<Value> {
    match part {
        Part::Text(text) => vec![json!({ "type": "text", "text": text })],
        Part::Replay(replay) => match replay::opened(WIRE, &request.model, Some(replay)) {
            Some(Value::Array(blocks)) if thinks => blocks.clone(),
            Some(_) | None => Vec::new(),
        },
        Part::Call { call, index: _ } => {
            vec![json!({ "type": "tool_use", "id": id(&call.id), "name": call.name, "input": input(call) })]
        }
        Part::Result { id: of, name: _, content } => {
            vec![json!({ "type": "tool_result", "tool_use_id": id(of), "content": content })]
        }
    }
}

/// Replaces characters that ids of other providers may have but Anthropic rejects.
fn id(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

/// Always an object: arguments that a model wrote incorrectly are sent back as a text inside one.
fn input(call: &PromptCall) -> Value {
    match &call.arguments {
        Value::Object(_) => call.arguments.clone(),
        Value::String(raw) => match serde_json::from_str(raw) {
            Ok(Value::Object(input)) => Value::Object(input),
            Ok(_) | Err(_) => json!({ "arguments": raw }),
        },
        Value::Null => json!({}),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_)) => json!({ "arguments": other }),
    }
}

fn tool(spec: &ToolSpec) -> Value {
    let schema = tool_schema::fit(&spec.input_schema, Rules::Anthropic);
    json!({ "name": spec.name, "description": spec.description, "input_schema": schema })
}

fn add_params(params: &Map<String, Value>, body: &mut Value) {
    for (name, value) in params {
        match name.as_str() {
            "temperature" => body["temperature"] = value.clone(),
            "topP" => body["top_p"] = value.clone(),
            "stop" => body["stop_sequences"] = if value.is_array() { value.clone() } else { json!([value]) },
            // Handled above, or rejected when the run was accepted.
            _ => {}
        }
    }
}
