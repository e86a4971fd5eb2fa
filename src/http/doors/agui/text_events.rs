//! Writes the events of a run's texts as AG-UI events.

use serde_json::{Value, json};

use crate::http::doors::text_events::TextEvent;

pub(super) fn to_events(events: Vec<TextEvent>) -> Vec<Value> {
    events.into_iter().flat_map(events_of).collect()
}

/// A model may think and answer in one stream. AG-UI needs two messages with different ids for it.
fn thoughts_id(stream: &str) -> String {
    format!("thoughts-{stream}")
}

/// The stream whose thoughts have this message id.
pub(super) fn stream_of_reasoning(message: &str) -> &str {
    message.strip_prefix("thoughts-").unwrap_or(message)
}

/// The event that begins the message with the thoughts of this stream.
pub(super) fn reasoning_message_start(stream: &str) -> Value {
    json!({ "type": "REASONING_MESSAGE_START", "messageId": thoughts_id(stream), "role": "reasoning" })
}

fn events_of(events: TextEvent) -> Vec<Value> {
    match events {
        TextEvent::AnswerStart { id } => {
            vec![json!({ "type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant" })]
        }
        TextEvent::AnswerDelta { id, delta } => {
            vec![json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": delta })]
        }
        TextEvent::AnswerEnd { id } => vec![json!({ "type": "TEXT_MESSAGE_END", "messageId": id })],
        TextEvent::ThoughtStart { id } => {
            vec![json!({ "type": "REASONING_START", "messageId": thoughts_id(&id) }), reasoning_message_start(&id)]
        }
        TextEvent::ThoughtDelta { id, delta } => {
            vec![json!({ "type": "REASONING_MESSAGE_CONTENT", "messageId": thoughts_id(&id), "delta": delta })]
        }
        TextEvent::ThoughtEnd { id } => vec![
            json!({ "type": "REASONING_MESSAGE_END", "messageId": thoughts_id(&id) }),
            json!({ "type": "REASONING_END", "messageId": thoughts_id(&id) }),
        ],
    }
}
