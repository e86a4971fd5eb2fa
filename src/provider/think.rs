//! `<think>…</think>` out of streamed text. Pure; never loses a byte: what is not a tag comes out, on one side or the other.
//!
//! A `<think>` right after a quote, a backtick or a backslash is quoted, not meant, and stays in its text. One that is
//! never closed leaves the rest thinking. Any other `<` is just a `<`.

use crate::domain::model::Delta;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// A piece of text, and whether it is thinking.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    thinking: bool,
    text: String,
}

#[derive(Debug, Default)]
pub(crate) struct Splitter {
    thinking: bool,
    /// The beginning of what may become a tag; shorter than a tag.
    held: String,
    /// What stands right before `held`.
    before: Option<char>,
}

impl Splitter {
    /// Takes the next piece and gives what is certain by now, in order.
    fn push(&mut self, text: &str, pieces: &mut Vec<Piece>) {
        let text = std::mem::take(&mut self.held) + text;
        let mut rest = text.as_str();
        while let Some(at) = rest.find('<') {
            self.keep(&rest[..at], pieces);
            rest = &rest[at..];
            let tag = if self.thinking { CLOSE } else { OPEN };
            if !self.thinking && self.before.is_some_and(|before| "\"'`\\".contains(before)) {
                self.keep("<", pieces);
                rest = &rest[1..];
            } else if let Some(after) = rest.strip_prefix(tag) {
                self.thinking = !self.thinking;
                self.before = None;
                rest = after;
            } else if tag.starts_with(rest) {
                rest.clone_into(&mut self.held);
                return;
            } else {
                self.keep("<", pieces);
                rest = &rest[1..];
            }
        }
        self.keep(rest, pieces);
    }

    /// The same as deltas; a text without any `<` is passed on as it is.
    pub(crate) fn say(&mut self, text: String, deltas: &mut Vec<Delta>) {
        if self.held.is_empty() && memchr::memchr(b'<', text.as_bytes()).is_none() {
            self.before = text.chars().next_back().or(self.before);
            deltas.extend((!text.is_empty()).then(|| delta(Piece { thinking: self.thinking, text })));
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
        self.keep(&held, &mut pieces);
        deltas.extend(pieces.into_iter().map(delta));
    }

    fn keep(&mut self, text: &str, pieces: &mut Vec<Piece>) {
        self.before = text.chars().next_back().or(self.before);
        match pieces.last_mut() {
            _ if text.is_empty() => {}
            Some(last) if last.thinking == self.thinking => last.text.push_str(text),
            Some(_) | None => pieces.push(Piece { thinking: self.thinking, text: text.to_owned() }),
        }
    }
}

fn delta(piece: Piece) -> Delta {
    if piece.thinking { Delta::Thinking(piece.text) } else { Delta::Text(piece.text) }
}

#[cfg(test)]
mod tests;
