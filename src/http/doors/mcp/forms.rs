//! Renders questions as forms that a host shows to a person (elicitation), and reads the replies. Pure.
//!
//! A form is flat: the members of one object, each a string, a number, a boolean or a choice, also of several options. A question that does not
//! fit into such a form, or that cannot be shown in full, is not asked this way.

use serde_json::{Map, Value, json};

use crate::domain::hitl::{Answer, AskedQuestion, FeedbackSchema, InDoubtAction, InputType, SuspensionKind};
use crate::http::doors::{question, text_reply};

/// A person's reply to a form.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FormReply {
    Answer(Box<Answer>),
    /// The person does not want to answer here.
    Declined,
    /// The reply does not fit the form.
    Invalid,
}

/// The elicitation request for a question. `None` if the question cannot be asked this way.
pub(super) fn form(asked: &AskedQuestion) -> Option<Value> {
    let properties = match asked.kind {
        SuspensionKind::Approval | SuspensionKind::PlanReview | SuspensionKind::Budget | SuspensionKind::Pause => {
            approval(asked.kind)
        }
        SuspensionKind::InDoubt => {
            let actions = json!(["retry", "done", "skip", "abort"]);
            json!({ "type": "object", "properties": { "action": { "type": "string", "enum": actions } },
                "required": ["action"] })
        }
        SuspensionKind::Input | SuspensionKind::PeerInput => input(&asked.feedback_schema)?,
        SuspensionKind::ClientTool | SuspensionKind::PeerAuth => return None,
    };
    let params = json!({ "mode": "form", "message": message(asked)?, "requestedSchema": properties });
    Some(json!({ "method": "elicitation/create", "params": params }))
}

/// Reads the host's result as a reply to the question.
pub(super) fn parse_reply(asked: &AskedQuestion, result: &Value) -> FormReply {
    let nothing = Map::new();
    let content = result.get("content").and_then(Value::as_object).unwrap_or(&nothing);
    match result.get("action").and_then(Value::as_str) {
        Some("accept") => match accepted(asked, content) {
            // It stays paused.
            Some(Answer { approved: Some(false), .. }) if asked.kind == SuspensionKind::Pause => FormReply::Declined,
            Some(answer) => FormReply::Answer(Box::new(answer)),
            None => FormReply::Invalid,
        },
        Some("decline") if is_approval(asked.kind) => {
            FormReply::Answer(Box::new(Answer { approved: Some(false), ..empty_answer(asked) }))
        }
        Some("decline" | "cancel") => FormReply::Declined,
        Some(_) | None => FormReply::Invalid,
    }
}

fn accepted(asked: &AskedQuestion, content: &Map<String, Value>) -> Option<Answer> {
    let empty_answer = empty_answer(asked);
    match asked.kind {
        SuspensionKind::Approval | SuspensionKind::PlanReview | SuspensionKind::Budget | SuspensionKind::Pause => {
            let approved = content.get("approved")?.as_bool()?;
            let reason = content.get("reason").and_then(Value::as_str).filter(|reason| !reason.trim().is_empty());
            Some(Answer { approved: Some(approved), reason: reason.map(str::to_owned), ..empty_answer })
        }
        SuspensionKind::InDoubt => {
            let action: InDoubtAction = serde_json::from_value(content.get("action")?.clone()).ok()?;
            Some(Answer { action: Some(action), ..empty_answer })
        }
        SuspensionKind::Input | SuspensionKind::PeerInput => {
            Some(Answer { value: Some(value(&asked.feedback_schema, content)?), ..empty_answer })
        }
        SuspensionKind::ClientTool | SuspensionKind::PeerAuth => None,
    }
}

/// An answer with no content yet, to the question as it was shown.
fn empty_answer(asked: &AskedQuestion) -> Answer {
    Answer { digest: asked.digest.clone(), ..text_reply::empty_answer(&asked.suspension_id) }
}

fn is_approval(kind: SuspensionKind) -> bool {
    match kind {
        SuspensionKind::Approval | SuspensionKind::PlanReview | SuspensionKind::Budget => true,
        SuspensionKind::Pause
        | SuspensionKind::InDoubt
        | SuspensionKind::Input
        | SuspensionKind::PeerInput
        | SuspensionKind::ClientTool
        | SuspensionKind::PeerAuth => false,
    }
}

fn approval(kind: SuspensionKind) -> Value {
    let title = if kind == SuspensionKind::Pause { "Go on" } else { "Approve" };
    let reason = json!({ "type": "string", "title": "Reason" });
    json!({
        "type": "object",
        "properties": { "approved": { "type": "boolean", "title": title }, "reason": reason },
        "required": ["approved"],
    })
}

fn input(form: &FeedbackSchema) -> Option<Value> {
    let labels = || form.options.iter().map(|option| option.label.as_str()).collect::<Vec<_>>();
    let value = match form.input_type {
        InputType::Boolean | InputType::Confirm => json!({ "type": "boolean" }),
        InputType::Text => json!({ "type": "string" }),
        InputType::Number => json!({ "type": "number" }),
        InputType::Date => json!({ "type": "string", "format": "date" }),
        InputType::Datetime => json!({ "type": "string", "format": "date-time" }),
        InputType::Select => json!({ "type": "string", "enum": labels() }),
        InputType::Multiselect => json!({ "type": "array", "items": { "type": "string", "enum": labels() } }),
        InputType::Custom => return form.custom_schema.as_ref().filter(|schema| is_flat(schema)).cloned(),
        InputType::File => return None,
    };
    Some(json!({ "type": "object", "properties": { "value": value }, "required": ["value"] }))
}

fn is_flat(schema: &Value) -> bool {
    let is_plain = |member: &Value| match member["type"].as_str() {
        Some("string" | "number" | "integer" | "boolean") => true,
        Some("array") => is_choice(&member["items"]),
        Some(_) | None => false,
    };
    schema["type"] == "object"
        && schema["properties"].as_object().is_some_and(|members| !members.is_empty() && members.values().all(is_plain))
}

/// Whether these are the options of a choice of several: texts, with or without titles.
fn is_choice(items: &Value) -> bool {
    let is_titled = |option: &Value| option["const"].is_string();
    let has_titles = items["anyOf"].as_array().is_some_and(|options| options.iter().all(is_titled));
    has_titles || (items["type"] == "string" && items["enum"].is_array())
}

/// The value in the type that the question's form asks for. Whether it fits the form is checked later, as for every
/// other answer.
fn value(form: &FeedbackSchema, content: &Map<String, Value>) -> Option<Value> {
    let meant = |label: &Value| {
        let option = form.options.iter().find(|option| Some(option.label.as_str()) == label.as_str())?;
        Some(option.value.clone())
    };
    match form.input_type {
        InputType::Custom => Some(Value::Object(content.clone())),
        InputType::Select => meant(content.get("value")?),
        InputType::Multiselect => content.get("value")?.as_array()?.iter().map(meant).collect(),
        InputType::Boolean
        | InputType::Confirm
        | InputType::Text
        | InputType::Number
        | InputType::Date
        | InputType::Datetime
        | InputType::File => content.get("value").cloned(),
    }
}

/// The question with everything that it is about. `None` if that is too long.
fn message(asked: &AskedQuestion) -> Option<String> {
    let mut message = question::full_text(asked)?;
    if let Some(risk) = asked.risk_level {
        message.push_str(&format!("\n\nRisk: {}", json!(risk).as_str().unwrap_or_default()));
    }
    Some(message)
}

#[cfg(test)]
mod tests;
