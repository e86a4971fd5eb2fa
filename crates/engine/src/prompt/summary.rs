//! The messages of a summary prompt: the older messages of a conversation, to be summed up.

use super::data::{Marker, shortened, with_markers};
use super::template::{SUMMARY, paragraphs};
use super::{History, SummaryPrompt};
use crate::domain::message::{ConversationMessage, MessageRole};
use crate::domain::prompt::PromptMessage;

pub fn summary(prompt: &SummaryPrompt<'_>) -> Vec<PromptMessage> {
    with_markers(prompt.frame.seed, |marker| {
        let system = paragraphs(["Phase: summary", SUMMARY, &marker.explanation()]);
        let so_far = prompt.so_far.map(|text| marker.block("summary so far", text)).unwrap_or_default();
        let blocks = prompt.messages.iter().map(|message| said_block(message, prompt.most, marker)).collect::<Vec<_>>();
        let material = paragraphs([so_far.as_str(), &blocks.join("\n\n")]);
        vec![PromptMessage::System { content: system }, PromptMessage::User { content: material }]
    })
}

fn said_block(message: &ConversationMessage, most: usize, marker: &Marker) -> String {
    let by = match message.role {
        MessageRole::Ai => "the assistant",
        MessageRole::User | MessageRole::System | MessageRole::Tool => "the user",
    };
    marker.block(&format!("message of {by}"), &shortened(&message.content, most, ""))
}

/// The earlier conversation: the summary of its oldest messages, then the others in their own words.
pub(super) fn history(history: &History<'_>, marker: &Marker) -> Vec<PromptMessage> {
    let summary = history.summary.map(|text| PromptMessage::User {
        content: format!("What was said before, summed up:\n{}", marker.block("summary", text)),
    });
    let messages = history.messages.iter().filter(|message| !message.content.is_empty()).map(|message| {
        let content = message.content.clone();
        match message.role {
            MessageRole::User | MessageRole::System | MessageRole::Tool => PromptMessage::User { content },
            MessageRole::Ai => PromptMessage::Assistant { content, tool_calls: Vec::new(), replay: None },
        }
    });
    summary.into_iter().chain(messages).collect()
}
