//! Deletion of threads. The rows of a large thread are removed later, in batches. The copies that the database keeps of them
//! in its free space are overwritten after that.

use async_trait::async_trait;
use serde_json::json;

use super::outbox::NewDelivery;
use super::{AuditRow, Result, SpendChange};
use crate::domain::Millis;
use crate::domain::ids::ThreadPk;
use crate::domain::usage::ModelUse;

/// How many bytes one transaction that deletes beside commits removes at most. It may exceed this by one row.
pub(crate) const BYTES_AT_ONCE: i64 = 4 << 20;

/// The run id under which the usage of deleted threads is counted.
const DELETED: &str = "deleted";

/// The deletion of a thread. Only its deliveries, its audit and its spending remain.
#[derive(Clone, Debug, PartialEq)]
pub struct Erasure {
    pub thread: ThreadPk,
    /// The version that was read.
    pub version: i64,
    pub now: Millis,
    pub deliveries: Vec<NewDelivery>,
    /// The line that says who deleted it.
    pub audit: AuditRow,
    /// Releases what its model calls had reserved under the caps, and adds what they used.
    pub spend: Vec<SpendChange>,
    /// The usage of the model calls that were stopped for it, and when it was known.
    pub calls: Vec<(Millis, ModelUse)>,
    /// Retention deletes it: no request waits.
    pub is_chore: bool,
}

impl Erasure {
    /// The usage rows to store for [`Self::calls`]: time and body.
    pub(crate) fn usage_to_keep(&self) -> impl Iterator<Item = (Millis, String)> {
        self.calls.iter().map(|(at, call)| {
            let kept = ModelUse { run: DELETED.into(), item: None, ..call.clone() };
            (*at, json!(kept).to_string())
        })
    }
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait ErasureStore: Send + Sync + 'static {
    /// Removes at most `limit` rows of deleted threads, and no more than a few megabytes. Returns how many; 0: none are
    /// left.
    async fn erase_rows(&self, limit: u32) -> Result<u64>;
    /// Overwrites the copies of deleted data, as far as the database permits it, once all rows of deleted threads are
    /// removed. Pauses between steps. `false`: open readers prevented it for some of it; call again.
    async fn overwrite_erased(&self) -> Result<bool>;
}
