//! The conversation before the query, in every prompt but that of a summary.

use super::History;
use super::data::Marker;
use crate::domain::message::MessageRole;
use crate::domain::prompt::PromptMessage;

/// The first line of the summary.
pub(super) const SUMMARY_HEADING: &str = "What was said before, summed up:";

/// The earlier conversation: the summary of its oldest messages, then the others in their own words.
pub(super) fn messages(history: &History<'_>, marker: &Marker) -> Vec<PromptMessage> {
    let summary = history
        .summary
        .map(|text| PromptMessage::User { content: format!("{SUMMARY_HEADING}\n{}", marker.block("summary", text)) });
    let messages = history.messages.iter().filter(|message| !message.content.is_empty()).map(|message| {
        let content = message.content.clone();
        match message.role {
            MessageRole::User | MessageRole::System | MessageRole::Tool => PromptMessage::User { content },
            MessageRole::Ai => PromptMessage::Assistant { content, tool_calls: Vec::new(), replay: None },
        }
    });
    summary.into_iter().chain(messages).collect()
}
