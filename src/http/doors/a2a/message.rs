//! Turns the message of another agent into a query.

use crate::a2a::types::{Content, Message, Part};

/// The query: the texts, data as JSON, and files by name.
pub(super) fn query(message: &Message) -> String {
    message.parts.iter().map(text_of).collect::<Vec<_>>().join("\n")
}

fn text_of(part: &Part) -> String {
    let name = || part.filename.as_deref().unwrap_or("file");
    let kind = || part.media_type.as_deref().unwrap_or("of unknown type");
    match &part.content {
        Content::Text(text) => text.clone(),
        Content::Data(data) => data.to_string(),
        Content::Url(url) => format!("[{}, {}: {url}]", name(), kind()),
        Content::Raw(raw) => format!("[{}, {}, {} bytes]", name(), kind(), raw.len()),
    }
}

/// The size of a part in bytes.
pub(super) fn size(part: &Part) -> usize {
    match &part.content {
        Content::Text(text) | Content::Url(text) => text.len(),
        Content::Raw(raw) => raw.len(),
        Content::Data(data) => data.to_string().len(),
    }
}
