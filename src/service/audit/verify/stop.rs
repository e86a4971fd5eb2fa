//! Why the verification of a chain ends before the end of the chain.

use crate::store;

/// An error is a mismatch, as a sentence.
pub(super) type Match = Result<(), String>;

pub(super) enum Stop {
    /// A mismatch, as a sentence.
    Broken(String),
    /// The chain could not be read.
    Store(store::Error),
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self::Broken(why)
    }
}

impl From<store::Error> for Stop {
    fn from(error: store::Error) -> Self {
        Self::Store(error)
    }
}
