//! Messages between agents and messages of a conversation.

use crate::a2a::types::{Content, Message, Metadata, Part, Role};
use crate::a2a::wire::Version;
use crate::domain::message::{ConversationMessage, MessageRole};

/// What the agent is asked: the texts, data as JSON, and files by name.
pub(super) fn query(message: &Message) -> String {
    message.parts.iter().map(told).collect::<Vec<_>>().join("\n")
}

fn told(part: &Part) -> String {
    let name = || part.filename.as_deref().unwrap_or("file");
    let kind = || part.media_type.as_deref().unwrap_or("of unknown type");
    match &part.content {
        Content::Text(text) => text.clone(),
        Content::Data(data) => data.to_string(),
        Content::Url(url) => format!("[{}, {}: {url}]", name(), kind()),
        Content::Raw(raw) => format!("[{}, {}, {} bytes]", name(), kind(), raw.len()),
    }
}

/// How much a part weighs, in bytes.
pub(super) fn size(part: &Part) -> usize {
    match &part.content {
        Content::Text(text) | Content::Url(text) => text.len(),
        Content::Raw(raw) => raw.len(),
        Content::Data(data) => data.to_string().len(),
    }
}

/// A message of the conversation as other agents see it: as it came, if it came from one.
pub(super) fn shown(message: &ConversationMessage, task: &str) -> Message {
    let came = message.metadata.as_ref().and_then(|metadata| Version::V1.read_message(metadata.get("a2a")?).ok());
    let plain = || Message {
        role: match message.role {
            MessageRole::User => Role::User,
            MessageRole::Ai | MessageRole::System | MessageRole::Tool => Role::Agent,
        },
        ..of_agent(message.message_id.as_str(), vec![Part::text(&*message.content)])
    };
    Message {
        context_id: Some(message.thread_id.to_string()),
        task_id: Some(task.to_owned()),
        ..came.unwrap_or_else(plain)
    }
}

pub(super) fn of_agent(id: &str, parts: Vec<Part>) -> Message {
    Message {
        message_id: id.to_owned(),
        context_id: None,
        task_id: None,
        role: Role::Agent,
        parts,
        metadata: Metadata::new(),
        extensions: Vec::new(),
        reference_task_ids: Vec::new(),
    }
}
