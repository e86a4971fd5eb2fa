//! The end of threads, and what must be done after it: of a large one rows are left, which are removed a few at a time, and
//! the database keeps copies of what was deleted in the room that became free.

use async_trait::async_trait;
use serde_json::json;

use super::outbox::NewDelivery;
use super::{AuditRow, Result, SpendChange};
use crate::domain::Millis;
use crate::domain::ids::ThreadPk;
use crate::domain::usage::ModelUse;

/// What one transaction that deletes beside commits removes at most, in bytes, and one row more than fits.
pub(crate) const BYTES_AT_ONCE: i64 = 4 << 20;

/// The run for which counts what the model calls of deleted threads took.
const DELETED: &str = "deleted";

/// The end of a thread: what it leaves in the outbox, and what it spent, is all that is left of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Erasure {
    pub thread: ThreadPk,
    /// As it was read.
    pub version: i64,
    pub now: Millis,
    pub deliveries: Vec<NewDelivery>,
    /// Who erased it.
    pub audit: AuditRow,
    /// What its model calls held under the caps, and what they took of that.
    pub spend: Vec<SpendChange>,
    /// What those took that were stopped for it, and when that was known.
    pub took: Vec<(Millis, ModelUse)>,
    /// It was too old; nobody waits for its end.
    pub is_chore: bool,
}

impl Erasure {
    /// What is kept of [`Self::took`]: the time and the body of each row.
    pub(crate) fn usage_to_keep(&self) -> impl Iterator<Item = (Millis, String)> {
        self.took.iter().map(|(at, took)| {
            let kept = ModelUse { run: DELETED.into(), item: None, ..took.clone() };
            (*at, json!(kept).to_string())
        })
    }
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
