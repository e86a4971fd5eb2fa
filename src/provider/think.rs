//! `<think>…</think>` out of streamed text. Pure; never loses a byte: what is not a tag comes out, on one side or the other.
//!
//! A tag right after a quote, a backtick or a backslash is quoted, not meant, and stays in its text. A `<think>` that is
//! never closed leaves the rest thinking. A `</think>` that closes nothing is dropped: the first one of a reply closes what
//! a template opened in the prompt, so whatever was said before it was thinking; unless it stands between blanks, as a word
//! of a sentence does. Any other `<` is just a `<`.

use crate::domain::model::Delta;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// A piece of text, and whether it is thinking.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TextPart {
    Text {
        thinking: bool,
        text: String,
    },
    /// All text so far was thinking.
    WasThinking,
}

#[derive(Debug, Default)]
pub(crate) struct Splitter {
    thinking: bool,
    /// A tag came before: what is thinking in this reply is marked.
    is_marked: bool,
    /// The beginning of what may become a tag; shorter than a tag.
    held: String,
    /// What stands right before `held`.
    before: Option<char>,
}

impl Splitter {
    /// Takes the next piece and gives what is certain by now, in order.
    fn push(&mut self, text: &str, pieces: &mut Vec<TextPart>) {
        let text = std::mem::take(&mut self.held) + text;
        let mut rest = text.as_str();
        while let Some(at) = rest.find('<') {
            self.keep(&rest[..at], pieces);
            rest = &rest[at..];
            let is_quoted = !self.thinking && self.before.is_some_and(|before| "\"'`\\".contains(before));
            match self.tag(rest).filter(|_| !is_quoted) {
                Some(Tag::Switch(tag)) => {
                    self.thinking = !self.thinking;
                    (self.is_marked, self.before) = (true, None);
                    rest = &rest[tag.len()..];
                }
                Some(Tag::Stray) => {
                    rest = &rest[CLOSE.len()..];
                    let is_word = self.before == Some(' ') && rest.starts_with(' ');
                    if !is_word && !std::mem::replace(&mut self.is_marked, true) {
                        pieces.push(TextPart::WasThinking);
                    }
                }
                Some(Tag::Begun) => {
                    rest.clone_into(&mut self.held);
                    return;
                }
                None => {
                    self.keep("<", pieces);
                    rest = &rest[1..];
                }
            }
        }
        self.keep(rest, pieces);
    }

    /// What the text that begins with `<` begins with.
    fn tag(&self, rest: &str) -> Option<Tag> {
        let opens = if self.thinking { CLOSE } else { OPEN };
        if rest.starts_with(opens) {
            return Some(Tag::Switch(opens));
        }
        // What follows a stray tag says what it is.
        if !self.thinking && rest.starts_with(CLOSE) && rest.len() > CLOSE.len() {
            return Some(Tag::Stray);
        }
        (opens.starts_with(rest) || CLOSE.starts_with(rest)).then_some(Tag::Begun)
    }

    /// The same as deltas; a text without any `<` is passed on as it is.
    pub(crate) fn say(&mut self, text: String, deltas: &mut Vec<Delta>) {
        if self.held.is_empty() && memchr::memchr(b'<', text.as_bytes()).is_none() {
            self.before = text.chars().next_back().or(self.before);
            deltas.extend((!text.is_empty()).then(|| delta(TextPart::Text { thinking: self.thinking, text })));
            return;
        }
        let mut pieces = Vec::new();
        self.push(&text, &mut pieces);
        deltas.extend(pieces.into_iter().map(delta));
    }

    /// What was held back: the text ended before it became a tag.
    pub(crate) fn finish(&mut self, deltas: &mut Vec<Delta>) {
        let mut pieces = Vec::new();
        let held = std::mem::take(&mut self.held);
        // Nothing follows it: what was said before it is all there is.
        if held != CLOSE {
            self.keep(&held, &mut pieces);
        }
        deltas.extend(pieces.into_iter().map(delta));
    }

    fn keep(&mut self, text: &str, pieces: &mut Vec<TextPart>) {
        self.before = text.chars().next_back().or(self.before);
        match pieces.last_mut() {
            _ if text.is_empty() => {}
            Some(TextPart::Text { thinking, text: last }) if *thinking == self.thinking => last.push_str(text),
            Some(TextPart::Text { .. } | TextPart::WasThinking) | None => {
                pieces.push(TextPart::Text { thinking: self.thinking, text: text.to_owned() });
            }
        }
    }
}

enum Tag {
    /// It opens or closes thinking.
    Switch(&'static str),
    /// It closes nothing.
    Stray,
    /// It may become one.
    Begun,
}

fn delta(piece: TextPart) -> Delta {
    match piece {
        TextPart::Text { thinking: true, text } => Delta::Thinking(text),
        TextPart::Text { thinking: false, text } => Delta::Text(text),
        TextPart::WasThinking => Delta::WasThinking,
    }
}

#[cfg(test)]
mod tests;
