//! The final answer.

use super::SynthesisDraft;

/// Reads the answer; never fails.
pub fn synthesis(text: &str) -> SynthesisDraft {
    SynthesisDraft { content: text.trim().to_owned(), ui_metadata: None }
}
