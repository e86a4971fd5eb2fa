//! The end of threads, and what must be done after it: of a large one rows are left, which are removed a few at a time, and
//! the database keeps copies of what was deleted in the room that became free.

use async_trait::async_trait;

use super::outbox::NewDelivery;
use super::{AuditRow, Result, SpendChange};
use crate::domain::Millis;
use crate::domain::ids::ThreadPk;

/// What one transaction that deletes beside commits removes at most, in bytes, and one row more than fits.
pub(crate) const BYTES_AT_ONCE: i64 = 4 << 20;

/// The end of a thread: what it leaves in the outbox is all that is left of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Erasure {
    pub thread: ThreadPk,
    /// As it was read.
    pub version: i64,
    pub now: Millis,
    pub deliveries: Vec<NewDelivery>,
    /// Who erased it.
    pub audit: AuditRow,
    /// What its model calls had held under the caps.
    pub spend: Vec<SpendChange>,
    /// It was too old; nobody waits for its end.
    pub is_chore: bool,
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait ErasureStore: Send + Sync + 'static {
    /// Removes rows that deleted threads left, at most so many, and no more than a few megabytes. Returns how many;
    /// 0: none are left.
    async fn erase_rows(&self, limit: u32) -> Result<u64>;
    /// Overwrites the copies of what deleted threads had, as far as the database lets us, once none of their rows are
    /// left, and rests in between. `false`: readers were in the way of some of it; ask again.
    async fn overwrite_erased(&self) -> Result<bool>;
}
