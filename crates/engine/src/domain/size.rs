//! Estimates the tokens of a text: cheap, and rather too high than too low.

use std::sync::Arc;

use crate::domain::prompt::PromptMessage;
use crate::domain::tool::ToolSpec;

/// How many tokens a text has.
pub fn tokens(text: &str) -> u64 {
    text.len() as u64 / 3 + 1
}

/// How many tokens a whole prompt has.
pub fn size(messages: &[PromptMessage], tools: &[Arc<ToolSpec>]) -> u64 {
    let message_tokens = messages.iter().map(|message| match message {
        PromptMessage::System { content } | PromptMessage::User { content } | PromptMessage::Tool { content, .. } => {
            tokens(content)
        }
        PromptMessage::Assistant { content, tool_calls, replay } => {
            let calls: u64 = tool_calls.iter().map(|call| tokens(&call.arguments.to_string())).sum();
            tokens(content) + calls + replay.as_ref().map_or(0, |replay| tokens(&replay.to_string()))
        }
    });
    message_tokens.sum::<u64>() + tools.iter().map(|tool| tokens(&tool.input_schema.to_string())).sum::<u64>()
}
