//! Import of a whole thread with its log.

use async_trait::async_trait;

use super::log::NewEntry;
use super::{Commit, Committed, Result};

/// A thread with its state and its log.
#[derive(Debug)]
pub struct NewImport {
    /// Creates the thread without records: its log is imported.
    pub commit: Commit,
    /// In order, and without a gap from `min_seq` to `last_seq`.
    pub log: Vec<NewEntry>,
    pub min_seq: i64,
    pub last_seq: i64,
    /// The base that replaces the log before `min_seq`, as text; `None`: the log is complete.
    pub base: Option<String>,
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait TransferStore: Send + Sync + 'static {
    /// Stores everything in one transaction. `Exists`: there is a thread with this id.
    async fn import_thread(&self, import: NewImport) -> Result<Committed>;
}
