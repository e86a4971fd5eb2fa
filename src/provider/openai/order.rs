//! A prompt in turns. Mistral refuses a user's word right behind a tool's result, and templates of local models refuse it
//! as they do two messages of one side in a row.

use serde_json::Value;

use crate::domain::prompt::{PromptCall, PromptMessage};
use crate::provider::turns::{Conversation, Part, Speaker, Turn};

/// What the model says between a result and the user's next word: with it the turns alternate, and the user's word keeps
/// its weight, which it would not have as a part of the result.
const HEARD: &str = "I have read the results.";

/// The same prompt, user first; what one side says in a row is one message.
pub(super) fn in_turns(messages: &[PromptMessage]) -> Vec<PromptMessage> {
    let Conversation { system, turns } = Conversation::of(messages);
    let system = (!system.is_empty()).then_some(PromptMessage::System { content: system });
    system.into_iter().chain(turns.iter().flat_map(said)).collect()
}

fn said(turn: &Turn<'_>) -> Vec<PromptMessage> {
    let (mut texts, mut tool_calls, mut results, mut replay) = (Vec::new(), Vec::new(), Vec::new(), None);
    for part in &turn.parts {
        match *part {
            Part::Text(text) => texts.push(text),
            Part::Replay(blocks) => replay = Some(blocks.clone()),
            Part::Call { call, place: _ } => tool_calls.push(call.clone()),
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
                results.push(assistant(HEARD.to_owned(), Vec::new(), None));
            }
            results.push(PromptMessage::User { content });
            results
        }
    }
}

fn assistant(content: String, tool_calls: Vec<PromptCall>, replay: Option<Value>) -> PromptMessage {
    PromptMessage::Assistant { content, tool_calls, replay }
}
