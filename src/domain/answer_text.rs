//! The text of an answer while it is streamed. Surrounding whitespace is not part of an answer: leading whitespace is
//! dropped, and trailing whitespace is held back until more text follows.

/// The text of one token stream, and how much of it may be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerText {
    sent: String,
    held: String,
}

impl AnswerText {
    /// Adds the next piece; returns the text that may be sent now.
    pub fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        if self.sent.is_empty() {
            self.held.drain(..self.held.len() - self.held.trim_start().len());
        }
        let blanks = self.held.split_off(self.held.trim_end().len());
        let next = std::mem::replace(&mut self.held, blanks);
        self.sent.push_str(&next);
        next
    }

    /// All text that could be sent so far.
    pub fn sent(&self) -> &str {
        &self.sent
    }

    /// The part of the whole answer that was not sent yet; `None`: the sent text is not a prefix of it.
    pub fn rest_of<'w>(&self, whole: &'w str) -> Option<&'w str> {
        whole.strip_prefix(self.sent.as_str())
    }
}

#[cfg(test)]
mod tests;
