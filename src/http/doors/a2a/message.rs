//! Turns the message of another agent into a query.

use super::card;
use crate::a2a::types::{Content, Message, Part};
use crate::config::a2a::A2a;
use crate::domain::question_text::fenced;

/// The query: the texts, data as JSON, files of text with their names, and other files by name only.
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
        Content::Raw(raw) => match file_text(part, raw) {
            Some(text) => format!("{}, {}:\n{}", name(), kind(), fenced("", text)),
            None => format!("[{}, {}, {} bytes]", name(), kind(), raw.len()),
        },
    }
}

/// The content of a file that can be read as text.
fn file_text<'p>(part: &Part, raw: &'p [u8]) -> Option<&'p str> {
    let is_text = part.media_type.as_deref().is_some_and(card::is_text_type);
    std::str::from_utf8(raw).ok().filter(|_| is_text)
}

/// Why this part cannot be taken: nothing reads its content.
pub(super) fn unsupported(config: &A2a, part: &Part) -> Option<String> {
    let raw = match &part.content {
        Content::Raw(raw) => Some(raw),
        Content::Text(_) | Content::Data(_) => None,
        // Only its address is read.
        Content::Url(_) => return None,
    };
    match (part.media_type.as_deref(), raw) {
        (None, Some(_)) => Some("A file needs its media type.".to_owned()),
        (None, None) => None,
        (Some(named), _) if !card::accepts_type(config, named) => Some(format!(
            "Parts of `{named}` are not taken: only text, JSON, and the types that a skill of the agent names in its input modes."
        )),
        (Some(named), Some(raw)) if file_text(part, raw).is_none() && !card::is_of_skill(config, named) => {
            Some(format!("A file of `{named}` must be text in UTF-8."))
        }
        (Some(_), _) => None,
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
