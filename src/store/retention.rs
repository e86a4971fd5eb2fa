//! What may be too old: threads, and the older part of their logs. Also what stands for that part once it is deleted.

use async_trait::async_trait;

use super::Result;
use super::columns::Columns;
use crate::domain::Millis;
use crate::domain::ids::{RunId, TenantPk, ThreadPk};
use crate::engine::step::RowKind;

/// The end of a run: where a list of them goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnd {
    pub at: Millis,
    pub run: RunId,
    pub thread: ThreadPk,
}

/// The part of a log that is not to be read any more, and what stands for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compaction {
    pub thread: ThreadPk,
    /// Where the log began when it was read.
    pub min_seq: i64,
    /// The last observation of that part: it must be the last of its commit.
    pub upto: i64,
    /// What all of them had told, as text.
    pub base: String,
    /// Rows that the base before it named and nothing names any more: those that are never loaded go with it.
    pub rows: Vec<(RowKind, String)>,
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait RetentionStore: Send + Sync + 'static {
    /// All tenants, by name.
    async fn tenants(&self) -> Result<Vec<(TenantPk, String)>>;
    /// Threads of the tenant at rest, behind this one, that nobody used since `before`; the longest unused first.
    async fn threads_at_rest(
        &self,
        tenant: TenantPk,
        before: Millis,
        behind: (Millis, ThreadPk),
        limit: u32,
    ) -> Result<Vec<(Millis, ThreadPk)>>;
    /// Threads that say themselves how long they are kept or were imported, behind this one, with their tenants.
    async fn threads_with_terms(&self, behind: ThreadPk, limit: u32) -> Result<Vec<(ThreadPk, TenantPk)>>;
    /// Runs of the tenant that stand since before `before` as they do, behind this one, in the order in which they came to.
    async fn runs_since(&self, tenant: TenantPk, behind: &RunEnd, before: Millis, limit: u32) -> Result<Vec<RunEnd>>;
    /// Up to where they were looked at.
    async fn compacted(&self, tenant: TenantPk) -> Result<RunEnd>;
    async fn set_compacted(&self, tenant: TenantPk, upto: &RunEnd) -> Result<()>;
    /// The last number of the last commit whose observations all are up to `upto`; `None`: there is none.
    async fn last_entry(&self, thread: ThreadPk, upto: i64) -> Result<Option<i64>>;
    /// Lets a log begin later: what is before cannot be read any more. `false`: it does not begin any more where it was
    /// said to, and nothing was done.
    async fn compact(&self, compaction: Compaction) -> Result<bool>;
    /// What is still stored of a log up to this number, which is before its beginning: some commits' observations as they
    /// are stored, each with the last number, in their order.
    async fn old_entries(&self, thread: ThreadPk, upto: i64, limit: u32) -> Result<Vec<(i64, String)>>;
    /// Deletes what is before the beginning of a log, up to this number; returns of how many commits.
    async fn drop_entries(&self, thread: ThreadPk, upto: i64) -> Result<u64>;
    /// Deletes those of these rows that are never loaded with their thread (`Keep::Never`); returns how many.
    async fn drop_rows(&self, thread: ThreadPk, rows: Vec<(RowKind, String)>) -> Result<u64>;
    /// Deletes rows that are not loaded any more, as their `ord` is below the floor of their thread (`Keep::UntilFloor`), at
    /// most so many; returns how many.
    async fn drop_below_floor(&self, thread: ThreadPk, limit: u32) -> Result<u64>;
    /// What stands for the beginning that was deleted, and its last number; `None`: nothing was.
    async fn base(&self, thread: ThreadPk) -> Result<Option<(i64, String)>>;
}

impl RunEnd {
    /// Before every run.
    pub(crate) fn beginning() -> Self {
        Self { at: Millis::MIN, run: "".into(), thread: ThreadPk::NONE }
    }

    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        Ok(Self { at: row.number("at")?, run: row.name("run")?.into(), thread: ThreadPk(row.number("pk")?) })
    }
}
