//! What a run says, as the events of its messages.

use serde_json::{Value, json};

use crate::http::doors::speech::Spoken;

pub(super) fn written(spoken: Vec<Spoken>) -> Vec<Value> {
    spoken.into_iter().flat_map(events_of).collect()
}

/// A model may think and answer in one stream: those are two messages.
fn thoughts(stream: &str) -> String {
    format!("thoughts-{stream}")
}

/// The stream whose thoughts are this message.
pub(super) fn stream_of_thoughts(message: &str) -> &str {
    message.strip_prefix("thoughts-").unwrap_or(message)
}

/// The message begins that has the thoughts of this stream.
pub(super) fn begins_thoughts(stream: &str) -> Value {
    json!({ "type": "REASONING_MESSAGE_START", "messageId": thoughts(stream), "role": "reasoning" })
}

fn events_of(spoken: Spoken) -> Vec<Value> {
    match spoken {
        Spoken::AnswerStart { id } => {
            vec![json!({ "type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant" })]
        }
        Spoken::Answer { id, delta } => {
            vec![json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": delta })]
        }
        Spoken::AnswerEnd { id } => vec![json!({ "type": "TEXT_MESSAGE_END", "messageId": id })],
        Spoken::ThoughtStart { id } => {
            vec![json!({ "type": "REASONING_START", "messageId": thoughts(&id) }), begins_thoughts(&id)]
        }
        Spoken::Thought { id, delta } => {
            vec![json!({ "type": "REASONING_MESSAGE_CONTENT", "messageId": thoughts(&id), "delta": delta })]
        }
        Spoken::ThoughtEnd { id } => vec![
            json!({ "type": "REASONING_MESSAGE_END", "messageId": thoughts(&id) }),
            json!({ "type": "REASONING_END", "messageId": thoughts(&id) }),
        ],
    }
}
