//! Reads a message as the answer to a question: its data part if it has one, else its text.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::message::query;
use crate::a2a::types::{Content, Message};
use crate::domain::hitl::{Answer, Suspension, SuspensionKind};
use crate::domain::ids::SuspensionId;
use crate::http::doors::text_reply;

/// A data part with one of these members is an answer. Any other data part is a value.
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
            reply.split_whitespace().next().filter(|word| is_id(word)).map(|word| NamedQuestion::InText(word.into()))
        }
    }
}

/// Suspension ids as the engine makes them.
fn is_id(word: &str) -> bool {
    let digits = word.strip_prefix("sus_").unwrap_or_default();
    Uuid::try_parse(digits).is_ok_and(|id| id.hyphenated().to_string() == digits)
}

/// Parses the message as an answer to the question. The error says how to answer.
pub(super) fn answer(open: &Suspension, message: &Message) -> Result<Answer, String> {
    if let Some(data) = data(message) {
        if ANSWER_MEMBERS.iter().any(|name| data.contains_key(*name)) {
            let mut reply = Value::Object(data.clone());
            reply["suspensionId"] = json!(open.suspension_id);
            return serde_json::from_value(reply).map_err(|error| format!("The data part is no answer: {error}."));
        }
        if is_input(open.kind) {
            return Ok(Answer { value: Some(Value::Object(data.clone())), ..text_reply::empty_answer(open) });
        }
    }
    let reply = query(message);
    let reply = reply.trim_start();
    text_reply::answer(open, reply.strip_prefix(open.suspension_id.as_str()).unwrap_or(reply))
        .map_err(|why| format!("{why} A data part with `approved`, `action` or `value` says it, too."))
}

fn is_input(kind: SuspensionKind) -> bool {
    match kind {
        SuspensionKind::Input | SuspensionKind::ClientTool | SuspensionKind::PeerInput | SuspensionKind::PeerAuth => {
            true
        }
        SuspensionKind::Approval
        | SuspensionKind::InDoubt
        | SuspensionKind::Budget
        | SuspensionKind::PlanReview
        | SuspensionKind::Pause => false,
    }
}

fn data(message: &Message) -> Option<&Map<String, Value>> {
    message.parts.iter().find_map(|part| match &part.content {
        Content::Data(data) => data.as_object(),
        Content::Text(_) | Content::Raw(_) | Content::Url(_) => None,
    })
}
