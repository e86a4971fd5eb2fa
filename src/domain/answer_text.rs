//! The text of an answer while it is written. Blanks around an answer are no part of it: those before it are left out, and
//! those behind it are held back until something follows.

/// What came of one stream of tokens, and what of it may be sent.
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

    /// All that could be sent so far.
    pub fn sent(&self) -> &str {
        &self.sent
    }

    /// What of the whole answer is still to be sent; `None`: what was sent is not how it begins.
    pub fn rest_of<'w>(&self, whole: &'w str) -> Option<&'w str> {
        whole.strip_prefix(self.sent.as_str())
    }
}

#[cfg(test)]
mod tests;
