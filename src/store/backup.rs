//! What a database that was restored must not do by itself: whatever was done after the backup is not known to it.

use async_trait::async_trait;
use serde_json::Value;

use super::Result;
use crate::domain::Millis;
use crate::domain::ids::ThreadPk;

/// What is said where a restored database is held back.
#[derive(Clone, Debug)]
pub struct HoldBack {
    pub now: Millis,
    /// Why deliveries are not made.
    pub deliveries: String,
    /// Why schedules do not fire.
    pub schedules: String,
    /// The audit of each tenant says who did what.
    pub actor: String,
    pub action: String,
    pub detail: Value,
}

/// How much of a restored database would have gone on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldBack {
    pub deliveries: u64,
    pub schedules: u64,
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait BackupStore: Send + Sync + 'static {
    /// As of when it was restored, until [`Self::hold_restored`]; `None`: it was not.
    async fn restored(&self) -> Result<Option<Millis>>;
    /// Says that this is what was stored then. `Unusable` while a process uses the database: what it has in hand goes on.
    async fn mark_restored(&self, as_of: Millis) -> Result<()>;
    /// Threads with runs that are not over, behind this one.
    async fn unfinished_threads(&self, behind: ThreadPk, limit: u32) -> Result<Vec<ThreadPk>>;
    /// Ends the deliveries that are not over, so that they are made only if somebody replays them, has no schedule fire
    /// before its document is written again, says so to each tenant, and forgets that the database was restored: in one
    /// transaction. `None`: it is not restored any more, and nothing was done.
    async fn hold_restored(&self, held: HoldBack) -> Result<Option<HeldBack>>;
}
