//! The messages of a summary prompt: the older messages of a conversation, to be summed up.

use super::SummaryPrompt;
use super::data::{Marker, shortened, with_markers};
use super::template::{SUMMARY, paragraphs};
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
