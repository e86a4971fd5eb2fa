//! A thread that comes whole from elsewhere, with its log as it was.

use async_trait::async_trait;

use super::log::NewEntry;
use super::{Commit, Committed, Result};

/// A thread with its state, and the log that told of it.
#[derive(Debug)]
pub struct NewImport {
    /// Creates the thread, and records nothing: its log is what comes with it.
    pub commit: Commit,
    /// In order, and without a gap from `min_seq` to `last_seq`.
    pub log: Vec<NewEntry>,
    pub min_seq: i64,
    pub last_seq: i64,
    /// What was told before `min_seq`, as text; `None`: nothing was.
    pub base: Option<String>,
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait TransferStore: Send + Sync + 'static {
    /// Stores all of it in one transaction, or nothing. `Exists`: there is a thread of this id.
    async fn import_thread(&self, import: NewImport) -> Result<Committed>;
}
