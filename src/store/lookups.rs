//! Keys under which runs are found again. They are written by the commit that accepts the run, and deleted with its thread.

use async_trait::async_trait;

use super::Result;
use super::columns::Columns;
use crate::domain::Millis;
use crate::domain::ids::{RunId, TenantPk};
use crate::domain::lookup::{FoundRun, LookupKey};

/// A key that a commit writes for a run of its thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLookup {
    pub key: LookupKey,
    pub run: RunId,
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait LookupStore: Send + Sync + 'static {
    /// At most `limit` runs under this key, the newest first.
    async fn lookups(&self, tenant: TenantPk, key: &LookupKey, limit: u32) -> Result<Vec<FoundRun>>;
    /// Records that a client listens to the run until this time. A later time that is recorded is kept. `false`: the run is
    /// not found under this key.
    async fn listen_until(&self, tenant: TenantPk, key: &LookupKey, run: &RunId, until: Millis) -> Result<bool>;
    /// Deletes at most `limit` keys older than this; returns how many.
    async fn forget_lookups(&self, before: Millis, limit: u32) -> Result<u64>;
}

/// Reads a row of a query that selects `thread_id, run_id, created_at, listening_until`.
pub(crate) fn read(row: &impl Columns) -> Result<FoundRun> {
    Ok(FoundRun {
        thread_id: row.name("thread_id")?.into(),
        run_id: row.name("run_id")?.into(),
        created_at: row.number("created_at")?,
        listening_until: row.number("listening_until")?,
    })
}
