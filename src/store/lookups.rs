//! Keys under which runs are found again. They are written with the commit that accepts the run, and die with its thread.

use async_trait::async_trait;

use super::Result;
use super::columns::Columns;
use crate::domain::Millis;
use crate::domain::ids::{RunId, TenantPk};
use crate::domain::lookup::{FoundRun, LookupKey};

/// A key that a commit writes, of its thread and at its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLookup {
    pub key: LookupKey,
    pub run: RunId,
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait LookupStore: Send + Sync + 'static {
    /// The runs under this key, the newest first, at most so many.
    async fn lookups(&self, tenant: TenantPk, key: &LookupKey, limit: u32) -> Result<Vec<FoundRun>>;
    /// Somebody listens to the run until then; what was said before and lasts longer stays. `false`: the run is not found
    /// under this key.
    async fn listen_until(&self, tenant: TenantPk, key: &LookupKey, run: &RunId, until: Millis) -> Result<bool>;
    /// Forgets keys older than this, at most so many; returns how many.
    async fn forget_lookups(&self, before: Millis, limit: u32) -> Result<u64>;
}

/// Of a query that selects `thread_id, run_id, created_at, listening_until`.
pub(crate) fn read(row: &impl Columns) -> Result<FoundRun> {
    Ok(FoundRun {
        thread_id: row.name("thread_id")?.into(),
        run_id: row.name("run_id")?.into(),
        created_at: row.number("created_at")?,
        listening_until: row.number("listening_until")?,
    })
}
