//! A message that answers a question: its data part if it has one, else its text.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::message::query;
use crate::a2a::types::{Content, Message};
use crate::domain::hitl::{Answer, Suspension, SuspensionKind};
use crate::domain::ids::SuspensionId;
use crate::http::doors::text_reply;

/// Members of a data part that make it an answer, and not a value.
const SAID: [&str; 6] = ["suspensionId", "approved", "value", "modifiedArgs", "action", "reason"];

/// How a message names a question.
pub(super) enum Named {
    InData(SuspensionId),
    /// By the first word of its text, which may mean something else.
    InText(SuspensionId),
}

/// The question that the message names.
pub(super) fn named(message: &Message) -> Option<Named> {
    match data(message) {
        Some(data) => data.get("suspensionId")?.as_str().map(|id| Named::InData(id.into())),
        None => {
            let said = query(message);
            said.split_whitespace().next().filter(|word| is_id(word)).map(|word| Named::InText(word.into()))
        }
    }
}

/// As the engine makes them.
fn is_id(word: &str) -> bool {
    let digits = word.strip_prefix("sus_").unwrap_or_default();
    Uuid::try_parse(digits).is_ok_and(|id| id.hyphenated().to_string() == digits)
}

/// What the message says to the question; or why it says nothing.
pub(super) fn answer(open: &Suspension, message: &Message) -> Result<Answer, String> {
    if let Some(data) = data(message) {
        if SAID.iter().any(|name| data.contains_key(*name)) {
            let mut said = Value::Object(data.clone());
            said["suspensionId"] = json!(open.suspension_id);
            return serde_json::from_value(said).map_err(|error| format!("The data part is no answer: {error}."));
        }
        if is_input(open.kind) {
            return Ok(Answer { value: Some(Value::Object(data.clone())), ..text_reply::blank(open) });
        }
    }
    let said = query(message);
    let said = said.trim_start();
    text_reply::answer(open, said.strip_prefix(open.suspension_id.as_str()).unwrap_or(said))
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
