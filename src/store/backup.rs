//! Restored databases. A restored database does not know what was done after the backup, so it must not resume deliveries
//! and schedules by itself.

use async_trait::async_trait;
use serde_json::Value;

use super::Result;
use crate::domain::Millis;
use crate::domain::ids::ThreadPk;

/// How a restored database is held, and what is recorded about it.
#[derive(Clone, Debug)]
pub struct RestoreHold {
    pub now: Millis,
    /// The reason that is stored with deliveries.
    pub deliveries: String,
    /// The reason that is stored with schedules.
    pub schedules: String,
    /// Actor, action and detail of the line in each tenant's audit.
    pub actor: String,
    pub action: String,
    pub detail: Value,
}

/// How many deliveries and schedules were held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldCounts {
    pub deliveries: u64,
    pub schedules: u64,
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait BackupStore: Send + Sync + 'static {
    /// The time of the backup from which the database was restored. `None`: it was not, or [`Self::hold_restored`] was
    /// called.
    async fn restored(&self) -> Result<Option<Millis>>;
    /// Marks the database as restored as of this time; as of its latest pending delivery, if that is later. `Unusable` while
    /// a process uses the database, because its work would continue.
    async fn mark_restored(&self, as_of: Millis) -> Result<()>;
    /// Threads after `behind` with unfinished runs.
    async fn unfinished_threads(&self, behind: ThreadPk, limit: u32) -> Result<Vec<ThreadPk>>;
    /// In one transaction: ends the deliveries that were pending when the database was marked, so that they are made only if
    /// somebody replays them; stops every schedule until its document is written again; adds a line to each tenant's audit;
    /// removes the mark of the restore.
    /// `None`: the database is not marked as restored, and nothing was done.
    async fn hold_restored(&self, held: RestoreHold) -> Result<Option<HeldCounts>>;
}
