//! Keys under which runs are found again. They are written by the commit that accepts the run, and deleted with its thread.

use async_trait::async_trait;

use super::columns::Columns;
use super::{Forgotten, Result};
use crate::domain::Millis;
use crate::domain::ids::{RunId, TenantPk};
use crate::domain::lookup::{FoundRun, LookupKey};

/// A key that a commit writes for a run of its thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLookup {
    pub key: LookupKey,
    pub run: RunId,
}

/// The position of a key among all keys, which are in the order of their times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupPosition {
    pub at: Millis,
    pub tenant: TenantPk,
    pub kind: String,
    pub digest: String,
    /// As it is stored.
    pub run: String,
}

/// What is read by further keys. A part of [`Reads`](super::Reads).
#[async_trait]
pub trait LookupReads: Send + Sync + 'static {
    /// At most `limit` runs under this key, the newest first.
    async fn lookups(&self, tenant: TenantPk, key: &LookupKey, limit: u32) -> Result<Vec<FoundRun>>;
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait LookupStore: Send + Sync + 'static {
    /// Records that a client listens to the run until this time. A later time that is recorded is kept. `false`: the run is
    /// not found under this key.
    async fn listen_until(&self, tenant: TenantPk, key: &LookupKey, run: &RunId, until: Millis) -> Result<bool>;
    /// One step of deleting the keys older than this, except those of the last runs of schedules. Deletes at most `limit`,
    /// all of them after `behind`.
    async fn forget_lookups(
        &self,
        before: Millis,
        behind: &LookupPosition,
        limit: u32,
    ) -> Result<Forgotten<LookupPosition>>;
}

impl LookupPosition {
    /// Before every key.
    pub fn beginning() -> Self {
        let [kind, digest, run] = [String::new(), String::new(), String::new()];
        Self { at: Millis::MIN, tenant: TenantPk::NONE, kind, digest, run }
    }

    /// Reads a row of a query that selects `created_at, tenant, kind, digest, run_id`.
    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        let [kind, digest, run] = [row.text("kind")?, row.text("digest")?, row.text("run_id")?].map(str::to_owned);
        Ok(Self { at: row.number("created_at")?, tenant: TenantPk(row.number("tenant")?), kind, digest, run })
    }
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
