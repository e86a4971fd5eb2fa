//! What the two kinds of requests have in common: functions of the client, and the parameters of the model.

use serde_json::{Map, Value, json};

use super::refusal::Refusal;
use crate::domain::tool::ClientTool;

/// How OpenAI calls a parameter of the model, and how it is called here.
const PARAMS: [(&str, &str); 4] =
    [("temperature", "temperature"), ("top_p", "topP"), ("seed", "seed"), ("reasoning_effort", "reasoningEffort")];

/// Those that say how the answer is to be written. A plan that they cut or bend would be none.
const OF_ANSWER: [(&str, &str); 6] = [
    ("stop", "stop"),
    ("frequency_penalty", "frequencyPenalty"),
    ("presence_penalty", "presencePenalty"),
    ("max_tokens", "maxTokens"),
    ("max_completion_tokens", "maxTokens"),
    ("max_output_tokens", "maxTokens"),
];

/// What all calls of models are asked with, and what only the one that writes the answer is.
pub(super) fn params(sent: &Map<String, Value>) -> (Map<String, Value>, Map<String, Value>) {
    // Values that ask for nothing: not every provider knows the parameter.
    let is_neutral = |name: &str, value: &Value| match name {
        "top_p" => value.as_f64() == Some(1.0),
        name => name.ends_with("_penalty") && value.as_f64() == Some(0.0),
    };
    let asked = |name: &str| sent.get(name).filter(|value| !value.is_null() && !is_neutral(name, value)).cloned();
    let of = |known: &[(&str, &str)]| {
        known.iter().filter_map(|(theirs, ours)| Some(((*ours).to_owned(), asked(theirs)?))).collect()
    };
    (of(&PARAMS), of(&OF_ANSWER))
}

/// Whether the agent may call functions of the client at all.
pub(super) fn offered(place: &str, choice: Option<&Value>) -> Result<bool, Refusal> {
    match choice {
        None | Some(Value::Null) => Ok(true),
        Some(Value::String(choice)) if choice == "auto" => Ok(true),
        Some(Value::String(choice)) if choice == "none" => Ok(false),
        Some(_) => Err(Refusal::unsupported(place, "The agent decides what it calls; `auto` and `none` are known.")),
    }
}

/// Functions as a chat completion declares them.
pub(super) fn functions(sent: &[Value]) -> Result<Vec<ClientTool>, Refusal> {
    sent.iter().enumerate().map(|(at, tool)| function(at, tool)).collect()
}

fn function(at: usize, tool: &Value) -> Result<ClientTool, Refusal> {
    let kind = tool["type"].as_str().unwrap_or_default();
    if kind != "function" {
        let message = format!("Tools of the type `{kind}` are not known; declare functions.");
        return Err(Refusal::unsupported(format!("tools[{at}]"), message));
    }
    client_tool(&format!("tools[{at}].function"), &tool["function"])
}

/// A function by its members, which stand at `place`.
pub(super) fn client_tool(place: &str, function: &Value) -> Result<ClientTool, Refusal> {
    let name = function["name"].as_str().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| Refusal::wrong("invalid", format!("{place}.name"), "A function needs a name."))?;
    let schema = match &function["parameters"] {
        Value::Null => json!({ "type": "object", "properties": {} }),
        schema => schema.clone(),
    };
    let description = function["description"].as_str().unwrap_or_default().to_owned();
    Ok(ClientTool { name: name.to_owned(), description, input_schema: schema })
}

/// What the answer must fit, by its format, which stands at `place` and has its schema at `schema`; `None`: it is text.
pub(super) fn answer_schema(place: &str, format: Option<&Value>, schema: &str) -> Result<Option<Value>, Refusal> {
    let Some(format) = format.filter(|format| !format.is_null()) else { return Ok(None) };
    match format["type"].as_str().unwrap_or_default() {
        "text" => Ok(None),
        "json_object" => Ok(Some(json!({ "type": "object" }))),
        "json_schema" => match format.pointer(schema) {
            Some(schema) => Ok(Some(schema.clone())),
            None => {
                let place = format!("{place}{}", schema.replace('/', "."));
                Err(Refusal::wrong("invalid", place, "The format needs a JSON Schema."))
            }
        },
        other => {
            let message = format!("Answers are `text`, `json_object` or `json_schema`; `{other}` is not known.");
            Err(Refusal::unsupported(place, message))
        }
    }
}
