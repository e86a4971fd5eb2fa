//! `<think>…</think>` out of streamed text. Pure; never loses a byte: what is not a tag comes out, on one side or the other.
//!
//! A `<think>` right after a quote, a backtick or a backslash is quoted, not meant, and stays in its text. One that is
//! never closed leaves the rest thinking. Any other `<` is just a `<`.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// A piece of text, and whether it is thinking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) thinking: bool,
    pub(crate) text: String,
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
    pub(crate) fn push(&mut self, text: &str, pieces: &mut Vec<Piece>) {
        let text = std::mem::take(&mut self.held) + text;
        let mut rest = text.as_str();
        while let Some(at) = rest.find('<') {
            self.say(&rest[..at], pieces);
            rest = &rest[at..];
            let tag = if self.thinking { CLOSE } else { OPEN };
            if !self.thinking && self.before.is_some_and(|before| "\"'`\\".contains(before)) {
                self.say("<", pieces);
                rest = &rest[1..];
            } else if let Some(after) = rest.strip_prefix(tag) {
                self.thinking = !self.thinking;
                self.before = None;
                rest = after;
            } else if tag.starts_with(rest) {
                rest.clone_into(&mut self.held);
                return;
            } else {
                self.say("<", pieces);
                rest = &rest[1..];
            }
        }
        self.say(rest, pieces);
    }

    /// What was held back: the text ended before it became a tag.
    pub(crate) fn finish(mut self, pieces: &mut Vec<Piece>) {
        let held = std::mem::take(&mut self.held);
        self.say(&held, pieces);
    }

    fn say(&mut self, text: &str, pieces: &mut Vec<Piece>) {
        self.before = text.chars().next_back().or(self.before);
        match pieces.last_mut() {
            _ if text.is_empty() => {}
            Some(last) if last.thinking == self.thinking => last.text.push_str(text),
            Some(_) | None => pieces.push(Piece { thinking: self.thinking, text: text.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests;
