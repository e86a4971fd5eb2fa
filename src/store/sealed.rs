//! Rows other than documents that hold sealed texts. They are listed to be sealed again with a new key.

use async_trait::async_trait;

use super::Result;
use super::columns::Columns;
use crate::domain::ids::{TenantPk, ThreadPk};

/// The kind of row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealedKind {
    /// A thread's row of the kind `Push`: a receiver of a task's changes, as JSON.
    Receiver,
    /// A response stored for an `Idempotency-Key`, whose whole body is one sealed text.
    Response,
}

/// One such row. Its kind and all members before `body` are its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedRow {
    pub kind: SealedKind,
    pub tenant: TenantPk,
    /// [`ThreadPk::NONE`] for responses.
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
    /// At most `limit` rows of a kind, in the order of their keys, after this one. Deleted receivers, and receivers without
    /// secrets, are among them.
    async fn sealed_rows(&self, kind: SealedKind, after: Option<&SealedRow>, limit: u32) -> Result<Vec<SealedRow>>;
    /// Replaces the body of the row. `false`: the row is not stored as it was read, and stays unchanged.
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
