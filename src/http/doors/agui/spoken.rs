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

fn events_of(spoken: Spoken) -> Vec<Value> {
    match spoken {
        Spoken::AnswerStart { id } => {
            vec![json!({ "type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant" })]
        }
        Spoken::Answer { id, delta } => {
            vec![json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": delta })]
        }
        Spoken::AnswerEnd { id } => vec![json!({ "type": "TEXT_MESSAGE_END", "messageId": id })],
        Spoken::ThoughtStart { id } => vec![
            json!({ "type": "REASONING_START", "messageId": thoughts(&id) }),
            json!({ "type": "REASONING_MESSAGE_START", "messageId": thoughts(&id), "role": "reasoning" }),
        ],
        Spoken::Thought { id, delta } => {
            vec![json!({ "type": "REASONING_MESSAGE_CONTENT", "messageId": thoughts(&id), "delta": delta })]
        }
        Spoken::ThoughtEnd { id } => vec![
            json!({ "type": "REASONING_MESSAGE_END", "messageId": thoughts(&id) }),
            json!({ "type": "REASONING_END", "messageId": thoughts(&id) }),
        ],
    }
}
