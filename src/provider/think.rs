//! Separates `<think>…</think>` from streamed text. Pure; no byte is lost except tags: all other text is passed on
//! either as text or as thinking.
//!
//! A tag right after a quotation mark, a backtick or a backslash is a quotation and stays in the text. After a
//! `<think>` that is never closed, the rest is thinking. A `</think>` without an opening tag is dropped: the first one
//! in a reply closes a tag that the prompt template opened, so the text before it was thinking, unless the tag stands
//! between spaces like a word in a sentence. Any other `<` is plain text.

use crate::domain::model::Delta;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

#[derive(Debug, Default)]
pub(crate) struct Splitter {
    thinking: bool,
    /// A tag was found before, so a later stray tag says nothing about earlier text.
    has_seen_tag: bool,
    /// The beginning of a possible tag; shorter than a tag.
    pending: String,
    /// The character before `pending`.
    previous: Option<char>,
}

impl Splitter {
    /// Processes the next piece and appends what is certain by now, in order. A piece without `<` is passed on unchanged.
    pub(crate) fn push_deltas(&mut self, text: String, deltas: &mut Vec<Delta>) {
        if self.pending.is_empty() && memchr::memchr(b'<', text.as_bytes()).is_none() {
            return self.emit(text, deltas);
        }
        let text = std::mem::take(&mut self.pending) + &text;
        let mut rest = text.as_str();
        while let Some(at) = rest.find('<') {
            self.emit(rest[..at].to_owned(), deltas);
            rest = &rest[at..];
            let is_quoted = !self.thinking && self.previous.is_some_and(|before| "\"'`\\".contains(before));
            match self.tag(rest).filter(|_| !is_quoted) {
                Some(Tag::Toggle(tag)) => {
                    self.thinking = !self.thinking;
                    (self.has_seen_tag, self.previous) = (true, None);
                    rest = &rest[tag.len()..];
                }
                Some(Tag::Stray) => {
                    rest = &rest[CLOSE.len()..];
                    let is_word = self.previous == Some(' ') && rest.starts_with(' ');
                    if !is_word && !std::mem::replace(&mut self.has_seen_tag, true) {
                        deltas.push(Delta::WasThinking);
                    }
                }
                Some(Tag::Partial) => {
                    rest.clone_into(&mut self.pending);
                    return;
                }
                None => {
                    self.emit("<".to_owned(), deltas);
                    rest = &rest[1..];
                }
            }
        }
        self.emit(rest.to_owned(), deltas);
    }

    /// The tag at the beginning of the text, which starts with `<`.
    fn tag(&self, rest: &str) -> Option<Tag> {
        let opens = if self.thinking { CLOSE } else { OPEN };
        if rest.starts_with(opens) {
            return Some(Tag::Toggle(opens));
        }
        // Only the character after a stray tag shows how it is meant.
        if !self.thinking && rest.starts_with(CLOSE) && rest.len() > CLOSE.len() {
            return Some(Tag::Stray);
        }
        (opens.starts_with(rest) || CLOSE.starts_with(rest)).then_some(Tag::Partial)
    }

    /// Emits the text that was pending back: it ended before it became a tag.
    pub(crate) fn finish(&mut self, deltas: &mut Vec<Delta>) {
        let pending = std::mem::take(&mut self.pending);
        // A stray tag at the very end: the text before it is the whole reply.
        if pending != CLOSE {
            self.emit(pending, deltas);
        }
    }

    fn emit(&mut self, text: String, deltas: &mut Vec<Delta>) {
        self.previous = text.chars().next_back().or(self.previous);
        if !text.is_empty() {
            deltas.push(if self.thinking { Delta::Thinking(text) } else { Delta::Text(text) });
        }
    }
}

enum Tag {
    /// Opens or closes thinking.
    Toggle(&'static str),
    /// Closes nothing.
    Stray,
    /// May become a tag.
    Partial,
}

#[cfg(test)]
mod tests;
