//! A text cut by what it says, and not by how it came: the same text is always cut alike.

/// A piece of a word is at most so long, in bytes.
const LONGEST: usize = 64;

/// Cuts a text that grows. A piece is a word with the blanks behind it, so it is complete when the next word begins.
#[derive(Clone, Debug, Default)]
pub(super) struct Words {
    held: String,
}

impl Words {
    /// The pieces that are complete with this text.
    pub(super) fn push(&mut self, text: &str) -> Vec<String> {
        self.held.push_str(text);
        let mut pieces = Vec::new();
        let mut rest = self.held.as_str();
        while let Some(end) = first(rest) {
            let (piece, behind) = rest.split_at(end);
            pieces.push(piece.to_owned());
            rest = behind;
        }
        let cut = self.held.len() - rest.len();
        self.held.drain(..cut);
        pieces
    }

    /// What is left when nothing follows.
    pub(super) fn rest(&mut self) -> Option<String> {
        Some(std::mem::take(&mut self.held)).filter(|rest| !rest.is_empty())
    }
}

/// Where the first piece ends; `None`: more of it may come.
fn first(text: &str) -> Option<usize> {
    // No further than a piece reaches: a text without blanks is not read again for each of its pieces.
    let head = &text[..text.ceil_char_boundary(LONGEST + 1)];
    let word = match head.find(char::is_whitespace) {
        Some(word) => word,
        None if text.len() > LONGEST => return Some(text.floor_char_boundary(LONGEST)),
        None => text.len(),
    };
    let blanks = text[word..].find(|c: char| !c.is_whitespace())?;
    // Blanks at the very beginning are a piece of their own.
    Some(word + blanks)
}

#[cfg(test)]
mod tests;
