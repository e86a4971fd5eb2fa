//! Reads a message as the answer to a question: its data part if it has one, else its text.

use serde_json::{Map, Value, json};

use super::message::query;
use crate::a2a::types::{Content, Message};
use crate::domain::hitl::{Answer, FeedbackSchema, InputType, Suspension};
use crate::domain::ids::SuspensionId;
use crate::http::doors::{is_suspension_id, text_reply};

/// Members of an answer.
const ANSWER_MEMBERS: [&str; 6] = ["suspensionId", "approved", "value", "modifiedArgs", "action", "reason"];

/// How a message names the question that it answers.
pub(super) enum NamedQuestion {
    InData(SuspensionId),
    /// By the first word of its text. That word may also be plain text.
    InText(SuspensionId),
}

/// The question that the message names.
pub(super) fn named(message: &Message) -> Option<NamedQuestion> {
    match data(message) {
        Some(data) => data.get("suspensionId")?.as_str().map(|id| NamedQuestion::InData(id.into())),
        None => {
            let reply = query(message);
            let first = reply.split_whitespace().next().filter(|word| is_suspension_id(word));
            first.map(|word| NamedQuestion::InText(word.into()))
        }
    }
}

/// Parses the message as an answer to the question. The error says how to answer.
pub(super) fn answer(open: &Suspension, message: &Message) -> Result<Answer, String> {
    let takes_value = open.kind.asks_for_a_value();
    if let Some(data) = data(message) {
        if is_answer(data, takes_value) {
            let mut reply = Value::Object(data.clone());
            reply["suspensionId"] = json!(open.suspension_id);
            return serde_json::from_value(reply).map_err(|error| format!("The data part is no answer: {error}."));
        }
        if takes_value {
            return Ok(Answer {
                value: Some(Value::Object(data.clone())),
                ..text_reply::empty_answer(&open.suspension_id)
            });
        }
    }
    if takes_value && let Some(value) = plain_value(&open.feedback_schema, message) {
        return Ok(Answer { value: Some(value.clone()), ..text_reply::empty_answer(&open.suspension_id) });
    }
    let reply = query(message);
    let reply = reply.trim_start();
    text_reply::answer(open, reply.strip_prefix(open.suspension_id.as_str()).unwrap_or(reply))
        .map_err(|why| format!("{why} A data part with `approved`, `action` or `value` says it, too."))
}

/// Whether the data part is an answer. Otherwise it is the value itself, which may have members of these names, too.
fn is_answer(data: &Map<String, Value>, takes_value: bool) -> bool {
    let is_member = |name: &String| ANSWER_MEMBERS.contains(&name.as_str());
    let is_named = data.contains_key("suspensionId");
    data.keys().any(is_member)
        && (is_named || !takes_value || data.keys().all(|name| is_member(name) || name == "digest"))
}

/// The value of a data part that is no object. A question that takes text is answered by words.
fn plain_value<'m>(form: &FeedbackSchema, message: &'m Message) -> Option<&'m Value> {
    let value = message.parts.iter().find_map(|part| match &part.content {
        Content::Data(data) => Some(data),
        Content::Text(_) | Content::Raw(_) | Content::Url(_) => None,
    });
    let takes_text = match form.input_type {
        InputType::Text | InputType::Date | InputType::Datetime | InputType::File => true,
        InputType::Boolean
        | InputType::Select
        | InputType::Multiselect
        | InputType::Number
        | InputType::Confirm
        | InputType::Custom => false,
    };
    value.filter(|value| value.is_string() || !(takes_text || value.is_null()))
}

fn data(message: &Message) -> Option<&Map<String, Value>> {
    message.parts.iter().find_map(|part| match &part.content {
        Content::Data(data) => data.as_object(),
        Content::Text(_) | Content::Raw(_) | Content::Url(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_have_members_of_an_answer_beside_its_own() {
        let is_answer = |data: Value, takes_value| is_answer(data.as_object().unwrap(), takes_value);
        assert!(is_answer(json!({ "value": 1 }), true));
        assert!(is_answer(json!({ "value": 1, "digest": "x" }), true));
        assert!(!is_answer(json!({ "value": 1, "unit": "km" }), true));
        assert!(is_answer(json!({ "suspensionId": "sus_1", "value": 1, "unit": "km" }), true));
        assert!(is_answer(json!({ "approved": true, "unit": "km" }), false));
        assert!(!is_answer(json!({ "unit": "km" }), true));
    }
}
