//! Reorders a prompt into alternating turns. Mistral rejects a user message right after a tool result, and templates of
//! local models reject that as well as two messages of the same role in a row.

use serde_json::Value;

use crate::domain::prompt::{PromptCall, PromptMessage};
use crate::provider::turns::{Conversation, Part, Speaker, Turn};

/// Inserted as an assistant message between a result and the next user message. So the turns alternate, and the user's
/// message is not treated as part of the result.
const ACKNOWLEDGEMENT: &str = "I have read the results.";

/// The same prompt, user first, with adjacent messages of one role merged.
pub(super) fn in_turns(messages: &[PromptMessage]) -> Vec<PromptMessage> {
    let Conversation { system, turns } = Conversation::of(messages);
    let system = (!system.is_empty()).then_some(PromptMessage::System { content: system });
    system.into_iter().chain(turns.iter().flat_map(messages_of)).collect()
}

fn messages_of(turn: &Turn<'_>) -> Vec<PromptMessage> {
    let (mut texts, mut tool_calls, mut results, mut replay) = (Vec::new(), Vec::new(), Vec::new(), None);
    for part in &turn.parts {
        match *part {
            Part::Text(text) => texts.push(text),
            Part::Replay(blocks) => replay = Some(blocks.clone()),
            Part::Call { call, index: _ } => tool_calls.push(call.clone()),
            Part::Result { id, name, content } => {
                let (tool_call_id, name, content) = (id.to_owned(), name.to_owned(), content.to_owned());
                results.push(PromptMessage::Tool { tool_call_id, name, content });
            }
        }
    }
    let content = texts.join("\n\n");
    match turn.speaker {
        Speaker::Model => vec![assistant(content, tool_calls, replay)],
        Speaker::User if content.is_empty() => results,
        Speaker::User => {
            if !results.is_empty() {
                results.push(assistant(ACKNOWLEDGEMENT.to_owned(), Vec::new(), None));
            }
            results.push(PromptMessage::User { content });
            results
        }
    }
}

fn assistant(content: String, tool_calls: Vec<PromptCall>, replay: Option<Value>) -> PromptMessage {
    PromptMessage::Assistant { content, tool_calls, replay }
}
