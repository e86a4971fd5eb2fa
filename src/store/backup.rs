//! What a database that was restored must not do by itself: whatever was done after the backup is not known to it.

use async_trait::async_trait;

use super::Result;
use crate::domain::Millis;
use crate::domain::ids::ThreadPk;

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait BackupStore: Send + Sync + 'static {
    /// As of when it was restored, until [`Self::forget_restored`]; `None`: it was not.
    async fn restored(&self) -> Result<Option<Millis>>;
    /// Says that this is what was stored then. `Unusable` while a process uses the database: what it has in hand goes on.
    async fn mark_restored(&self, as_of: Millis) -> Result<()>;
    async fn forget_restored(&self) -> Result<()>;
    /// Threads with runs that are not over, behind this one.
    async fn unfinished_threads(&self, behind: ThreadPk, limit: u32) -> Result<Vec<ThreadPk>>;
    /// Ends the deliveries that are not over: they are made only if somebody replays them. Returns how many.
    async fn hold_deliveries(&self, why: &str, now: Millis) -> Result<u64>;
}
