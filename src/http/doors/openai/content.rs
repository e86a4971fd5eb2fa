//! The content of a message: a text, or a list of text parts.

use serde_json::Value;

use super::error::OpenAiError;

/// Part types, and the member that holds the text.
const PARTS: [(&str, &str); 4] =
    [("text", "text"), ("input_text", "text"), ("output_text", "text"), ("refusal", "refusal")];

/// The text of this content. `place` is its position in the request, for errors.
pub(super) fn text(place: &str, content: Option<&Value>) -> Result<String, OpenAiError> {
    match content {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(parts)) => {
            let parts = parts.iter().enumerate().map(|(at, part)| part_text(&format!("{place}[{at}]"), part));
            Ok(parts.collect::<Result<Vec<_>, _>>()?.join("\n"))
        }
        Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => {
            Err(OpenAiError::bad_request("invalid", place, "It must be a text or a list of parts."))
        }
    }
}

fn part_text(place: &str, part: &Value) -> Result<String, OpenAiError> {
    let kind = part["type"].as_str().unwrap_or_default();
    let member = PARTS.iter().find(|(known, _)| *known == kind).map(|(_, member)| *member);
    let text = member.and_then(|member| part[member].as_str());
    text.map(str::to_owned).ok_or_else(|| {
        let message = match kind {
            "" => "A part is an object with a type: `{\"type\": \"text\", \"text\": …}`.".to_owned(),
            kind => format!("Parts of the type `{kind}` are not taken; send text."),
        };
        OpenAiError::bad_request("unsupported_content", place, message)
    })
}
