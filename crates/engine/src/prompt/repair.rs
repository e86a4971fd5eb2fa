//! The prompt that asks a model to repair a reply that could not be parsed.

use super::RepairPrompt;
use super::data::shortened;
use super::template::{REPAIR, fill};
use crate::domain::prompt::PromptMessage;

/// How much of the unusable reply is shown to the model again, in characters.
const MAX_REPLY_CHARS: usize = 20_000;

/// The first line of the system prompt.
pub(super) const FIRST_LINE: &str = "Phase: repair";

/// `messages` is the prompt whose reply could not be used; the phase in its first line becomes `repair`.
pub fn repair(mut messages: Vec<PromptMessage>, prompt: &RepairPrompt<'_>) -> Vec<PromptMessage> {
    if let Some(PromptMessage::System { content }) = messages.first_mut() {
        let rest = content.find('\n').map_or("", |end| &content[end..]);
        *content = format!("{FIRST_LINE}{rest}");
    }
    if !prompt.reply.trim().is_empty() {
        let content = shortened(prompt.reply, MAX_REPLY_CHARS, "");
        messages.push(PromptMessage::Assistant { content, tool_calls: Vec::new(), replay: None });
    }
    messages.push(PromptMessage::User { content: fill(REPAIR, &[("fault", prompt.fault)]) });
    messages
}
