//! What both APIs have in common: the client's functions, and the parameters of the model.

use serde_json::{Map, Value, json};

use super::error::OpenAiError;
use crate::domain::tool::ClientTool;

/// OpenAI's names of the model's parameters, and the names here.
const PARAMS: [(&str, &str); 4] =
    [("temperature", "temperature"), ("top_p", "topP"), ("seed", "seed"), ("reasoning_effort", "reasoningEffort")];

/// Parameters that apply only to the call that writes the answer. They could truncate or distort a plan.
const ANSWER_PARAMS: [(&str, &str); 6] = [
    ("stop", "stop"),
    ("frequency_penalty", "frequencyPenalty"),
    ("presence_penalty", "presencePenalty"),
    ("max_tokens", "maxTokens"),
    ("max_completion_tokens", "maxTokens"),
    ("max_output_tokens", "maxTokens"),
];

/// The parameters for all model calls, and those for the call that writes the answer.
pub(super) fn params(sent: &Map<String, Value>) -> (Map<String, Value>, Map<String, Value>) {
    // Values without effect are dropped, because not every provider knows the parameter.
    let is_neutral = |name: &str, value: &Value| match name {
        "top_p" => value.as_f64() == Some(1.0),
        name => name.ends_with("_penalty") && value.as_f64() == Some(0.0),
    };
    let asked = |name: &str| sent.get(name).filter(|value| !value.is_null() && !is_neutral(name, value)).cloned();
    let of = |known: &[(&str, &str)]| {
        known.iter().filter_map(|(theirs, ours)| Some(((*ours).to_owned(), asked(theirs)?))).collect()
    };
    (of(&PARAMS), of(&ANSWER_PARAMS))
}

/// Whether the agent may call the client's functions at all.
pub(super) fn may_call_tools(place: &str, choice: Option<&Value>) -> Result<bool, OpenAiError> {
    match choice {
        None | Some(Value::Null) => Ok(true),
        Some(Value::String(choice)) if choice == "auto" => Ok(true),
        Some(Value::String(choice)) if choice == "none" => Ok(false),
        Some(_) => {
            let message = "The agent decides what it calls; `auto` and `none` are known. For an answer as JSON, send its \
                           schema as `response_format`, or in a response as `text.format`.";
            Err(OpenAiError::unsupported(place, message))
        }
    }
}

/// Functions as a chat completion declares them.
pub(super) fn functions(sent: &[Value]) -> Result<Vec<ClientTool>, OpenAiError> {
    sent.iter().enumerate().map(|(at, tool)| function(at, tool)).collect()
}

fn function(at: usize, tool: &Value) -> Result<ClientTool, OpenAiError> {
    let kind = tool["type"].as_str().unwrap_or_default();
    if kind != "function" {
        let message = format!("Tools of the type `{kind}` are not known; declare functions.");
        return Err(OpenAiError::unsupported(format!("tools[{at}]"), message));
    }
    client_tool(&format!("tools[{at}].function"), &tool["function"])
}

/// One function. `place` is its position in the request, for errors.
pub(super) fn client_tool(place: &str, function: &Value) -> Result<ClientTool, OpenAiError> {
    let name = function["name"].as_str().filter(|name| !name.is_empty());
    let name =
        name.ok_or_else(|| OpenAiError::bad_request("invalid", format!("{place}.name"), "A function needs a name."))?;
    let schema = match &function["parameters"] {
        Value::Null => json!({ "type": "object", "properties": {} }),
        schema => schema.clone(),
    };
    let description = function["description"].as_str().unwrap_or_default().to_owned();
    Ok(ClientTool { name: name.to_owned(), description, input_schema: schema })
}

/// The schema that the answer must fit, from the format at `place`, which has its schema at the pointer `schema`.
/// `None` if the answer is text.
pub(super) fn answer_schema(place: &str, format: Option<&Value>, schema: &str) -> Result<Option<Value>, OpenAiError> {
    let Some(format) = format.filter(|format| !format.is_null()) else { return Ok(None) };
    match format["type"].as_str().unwrap_or_default() {
        "text" => Ok(None),
        "json_object" => Ok(Some(json!({ "type": "object" }))),
        "json_schema" => match format.pointer(schema) {
            Some(schema) => Ok(Some(schema.clone())),
            None => {
                let place = format!("{place}{}", schema.replace('/', "."));
                Err(OpenAiError::bad_request("invalid", place, "The format needs a JSON Schema."))
            }
        },
        other => {
            let message = format!("Answers are `text`, `json_object` or `json_schema`; `{other}` is not known.");
            Err(OpenAiError::unsupported(place, message))
        }
    }
}
