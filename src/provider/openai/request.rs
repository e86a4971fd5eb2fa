//! Builds the body of `POST …/chat/completions`.

use std::borrow::Cow;

use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::compatible::{Dialect, Effort, Reasoning, Schema};
use super::{WIRE, order};
use crate::domain::model::ModelRequest;
use crate::domain::prompt::{PromptCall, PromptMessage};
use crate::domain::tool::ToolSpec;
use crate::provider::replay;
use crate::provider::tool_schema::{self, Rules};

/// Stands for the reasoning of a reply with calls that has none of this model: while it thinks, DeepSeek refuses such a
/// reply without the member.
static NO_REASONING: Value = Value::String(String::new());

/// The body; it borrows most values from the request.
#[derive(Serialize)]
struct Body<'r> {
    model: &'r str,
    messages: Vec<Message<'r>>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Typed<Tool<'r>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Format<'r>>,
    #[serde(flatten)]
    params: Params<'r>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Message<'r> {
    System {
        content: &'r str,
    },
    User {
        content: &'r str,
    },
    Assistant {
        content: &'r str,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'r>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_content: Option<&'r Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_details: Option<&'r Value>,
    },
    Tool {
        tool_call_id: Cow<'r, str>,
        content: &'r str,
    },
}

#[derive(Serialize)]
struct Call<'r> {
    id: Cow<'r, str>,
    #[serde(flatten)]
    function: Typed<Called<'r>>,
}

/// `{"type": "function", "function": …}`
#[derive(Serialize)]
#[serde(tag = "type", content = "function", rename_all = "lowercase")]
enum Typed<T> {
    Function(T),
}

#[derive(Serialize)]
struct Called<'r> {
    name: &'r str,
    arguments: Cow<'r, str>,
}

#[derive(Serialize)]
struct Tool<'r> {
    name: &'r str,
    description: &'r str,
    parameters: Cow<'r, Value>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Format<'r> {
    JsonObject,
    JsonSchema { json_schema: Form<'r> },
}

#[derive(Serialize)]
struct Form<'r> {
    name: &'static str,
    schema: &'r Value,
}

/// `llmParams`, renamed for this vendor.
struct Params<'r> {
    dialect: &'r Dialect,
    given: &'r Map<String, Value>,
}

pub(super) fn body(dialect: &Dialect, request: &ModelRequest) -> Vec<u8> {
    let in_turns = dialect.takes_turns.then(|| order::in_turns(&request.messages));
    let messages = in_turns.as_ref().unwrap_or(&request.messages);
    let body = Body {
        model: &request.model,
        messages: messages.iter().map(|said| message(dialect, &request.model, said)).collect(),
        stream: true,
        stream_options: dialect.has_usage_option.then_some(StreamOptions { include_usage: true }),
        tools: request.tools.iter().map(|spec| tool(spec)).collect(),
        response_format: request.response_schema.as_ref().and_then(|schema| format(dialect, &request.model, schema)),
        params: Params { dialect, given: &request.params },
    };
    serde_json::to_vec(&body).expect("its keys are texts")
}

fn format<'r>(dialect: &Dialect, model: &str, schema: &'r Value) -> Option<Format<'r>> {
    match dialect.schema_of(model) {
        // For a schema without members only "an object" can be enforced.
        Schema::Whole if schema.get("properties").is_none() => Some(Format::JsonObject),
        Schema::Whole => Some(Format::JsonSchema { json_schema: Form { name: "reply", schema } }),
        Schema::Object => Some(Format::JsonObject),
        Schema::None => None,
    }
}

fn message<'r>(dialect: &Dialect, model: &str, message: &'r PromptMessage) -> Message<'r> {
    match message {
        PromptMessage::System { content } => Message::System { content },
        PromptMessage::User { content } => Message::User { content },
        PromptMessage::Assistant { content, tool_calls, replay } => {
            let blocks = replay::opened(WIRE, model, replay.as_ref());
            let kept = |as_this: Reasoning| blocks.filter(|_| dialect.reasoning == as_this);
            let needs_content = dialect.reasoning == Reasoning::Content && !tool_calls.is_empty();
            Message::Assistant {
                content,
                tool_calls: tool_calls.iter().map(|made| call(dialect, made)).collect(),
                reasoning_content: kept(Reasoning::Content).or(needs_content.then_some(&NO_REASONING)),
                reasoning_details: kept(Reasoning::Details),
            }
        }
        PromptMessage::Tool { tool_call_id, name: _, content } => {
            Message::Tool { tool_call_id: id(dialect, tool_call_id), content }
        }
    }
}

fn call<'r>(dialect: &Dialect, call: &'r PromptCall) -> Call<'r> {
    let arguments = match &call.arguments {
        Value::String(raw) => Cow::Borrowed(raw.as_str()),
        value => Cow::Owned(value.to_string()),
    };
    Call { id: id(dialect, &call.id), function: Typed::Function(Called { name: &call.name, arguments }) }
}

/// A call's id in the form that this vendor accepts: the same for the call and its result.
fn id<'i>(dialect: &Dialect, id: &'i str) -> Cow<'i, str> {
    let is_short = id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_short || !dialect.has_short_ids {
        return Cow::Borrowed(id);
    }
    let digest = Sha256::digest(id.as_bytes());
    Cow::Owned(digest.iter().take(9).map(|byte| char::from(b'a' + byte % 26)).collect())
}

fn tool(spec: &ToolSpec) -> Typed<Tool<'_>> {
    Typed::Function(Tool {
        name: &spec.name,
        description: &spec.description,
        parameters: tool_schema::fit(&spec.input_schema, Rules::Common),
    })
}

impl Serialize for Params<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_map(None)?;
        for (name, value) in self.given {
            let name = match name.as_str() {
                "maxTokens" => self.dialect.max_tokens,
                "topP" => "top_p",
                "frequencyPenalty" => "frequency_penalty",
                "presencePenalty" => "presence_penalty",
                "seed" => self.dialect.seed,
                "reasoningEffort" => match self.dialect.effort {
                    Effort::Plain => "reasoning_effort",
                    Effort::Nested => {
                        members.serialize_entry("reasoning", &json!({ "effort": value }))?;
                        continue;
                    }
                },
                same @ ("temperature" | "stop") => same,
                // Rejected when the run was accepted; but a run of a newer version may still contain it.
                _ => continue,
            };
            members.serialize_entry(name, value)?;
        }
        members.end()
    }
}
