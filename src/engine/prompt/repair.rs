//! Asking again for a reply that can be read.

use super::RepairPrompt;
use crate::domain::prompt::PromptMessage;

/// `messages` is the prompt that was answered badly; the phase in its first line becomes `repair`.
pub fn repair(mut messages: Vec<PromptMessage>, prompt: &RepairPrompt<'_>) -> Vec<PromptMessage> {
    messages.push(PromptMessage::User { content: prompt.fault.to_owned() });
    messages
}
