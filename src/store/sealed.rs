//! Rows besides documents that hold sealed texts: found when they are sealed again.

use async_trait::async_trait;

use super::Result;
use super::columns::Columns;
use crate::domain::ids::{TenantPk, ThreadPk};

/// Where a row stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealedKind {
    /// A thread's row of the kind `Push`: a receiver of a task's changes, as JSON.
    Receiver,
    /// An answer kept for an `Idempotency-Key`, which as a whole is one sealed text.
    Answer,
}

/// One such row. Its kind, and all that stands before `body`, is its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedRow {
    pub kind: SealedKind,
    pub tenant: TenantPk,
    /// [`ThreadPk::NONE`] for answers.
    pub thread: ThreadPk,
    /// Empty for receivers.
    pub scope: String,
    /// The id of the row, or the `Idempotency-Key`.
    pub id: String,
    pub body: String,
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait SealedStore: Send + Sync + 'static {
    /// At most so many rows of a kind, in the order of their keys, after this one. Receivers that were deleted, or have no
    /// secrets, are among them.
    async fn sealed_rows(&self, kind: SealedKind, after: Option<&SealedRow>, limit: u32) -> Result<Vec<SealedRow>>;
    /// Writes another body in place of the row's. `false`: the row is not stored as it was read, and stays as it is.
    async fn replace_sealed(&self, row: &SealedRow, body: &str) -> Result<bool>;
}

impl SealedRow {
    pub(crate) fn read(kind: SealedKind, row: &impl Columns) -> Result<Self> {
        Ok(Self {
            kind,
            tenant: TenantPk(row.number("tenant")?),
            thread: ThreadPk(row.number("pk")?),
            scope: row.name("scope")?,
            id: row.name("id")?,
            body: row.text("body")?.to_owned(),
        })
    }
}
