//! Splits a text by its content and not by the chunks in which it arrives, so the same text is always split the same
//! way.

/// The maximum length of a piece of a word, in bytes.
const MAX_PIECE_BYTES: usize = 64;

/// Splits a growing text. A piece is a word with the whitespace after it, so it is complete when the next word begins.
#[derive(Clone, Debug, Default)]
pub(super) struct WordSplitter {
    buffer: String,
}

impl WordSplitter {
    /// Adds a text, and returns the pieces that are complete.
    pub(super) fn push(&mut self, text: &str) -> Vec<String> {
        self.buffer.push_str(text);
        let mut pieces = Vec::new();
        let mut rest = self.buffer.as_str();
        while let Some(end) = first_piece_end(rest) {
            let (piece, behind) = rest.split_at(end);
            pieces.push(piece.to_owned());
            rest = behind;
        }
        let cut = self.buffer.len() - rest.len();
        self.buffer.drain(..cut);
        pieces
    }

    /// The last piece, when no more text follows.
    pub(super) fn rest(&mut self) -> Option<String> {
        Some(std::mem::take(&mut self.buffer)).filter(|rest| !rest.is_empty())
    }
}

/// The end of the first piece. `None` if it may still grow.
fn first_piece_end(text: &str) -> Option<usize> {
    // Searches only as far as a piece can reach. Otherwise a text without whitespace would be read again for each of
    // its pieces.
    let head = &text[..text.ceil_char_boundary(MAX_PIECE_BYTES + 1)];
    let word = match head.find(char::is_whitespace) {
        Some(word) => word,
        None if text.len() > MAX_PIECE_BYTES => return Some(text.floor_char_boundary(MAX_PIECE_BYTES)),
        None => text.len(),
    };
    let blanks = text[word..].find(|c: char| !c.is_whitespace())?;
    // Whitespace at the very beginning is a piece of its own.
    Some(word + blanks)
}

#[cfg(test)]
mod tests;
