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
    /// What the base before it named and nothing names any more.
    pub unnamed: Vec<String>,
}

impl Compaction {
    /// What is no longer named, as a body of the old part of the log; `None`: there is nothing.
    pub(crate) fn unnamed_text(&self) -> Option<String> {
        let text = || serde_json::to_string(&self.unnamed).expect("texts are JSON");
        (!self.unnamed.is_empty()).then(text)
    }
}

/// What one transaction deleted: a few megabytes at most, so that commits do not wait for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// How many rows, or commits of a log.
    pub count: u64,
    /// Others are left that it had no room for.
    pub is_more: bool,
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
    /// Runs of the tenant whose status last changed before `before`, in the order of that, after `behind`.
    async fn runs_since(&self, tenant: TenantPk, behind: &RunEnd, before: Millis, limit: u32) -> Result<Vec<RunEnd>>;
    /// Up to where they were looked at.
    async fn compacted(&self, tenant: TenantPk) -> Result<RunEnd>;
    async fn set_compacted(&self, tenant: TenantPk, upto: &RunEnd) -> Result<()>;
    /// The last number of the last commit whose observations all are up to `upto`; `None`: there is none.
    async fn last_entry(&self, thread: ThreadPk, upto: i64) -> Result<Option<i64>>;
    /// Lets a log begin later: what is before cannot be read any more. What nothing names any more is among its old entries
    /// from then on, so that it is found with them. `false`: the log does not begin any more where it was said to, and
    /// nothing was done.
    async fn compact(&self, compaction: Compaction) -> Result<bool>;
    /// What is still stored of a log up to this number, which is before its beginning: some commits' observations as they
    /// are stored, each with the last number, in their order.
    async fn old_entries(&self, thread: ThreadPk, upto: i64, limit: u32) -> Result<Vec<(i64, String)>>;
    /// Deletes what is before the beginning of a log, up to this number.
    async fn drop_entries(&self, thread: ThreadPk, upto: i64) -> Result<Dropped>;
    /// Deletes those of these rows that are never loaded with their thread (`Keep::Never`).
    async fn drop_rows(&self, thread: ThreadPk, rows: Vec<(RowKind, String)>) -> Result<Dropped>;
    /// Deletes rows that are not loaded any more, as their `ord` is below the floor of their thread (`Keep::UntilFloor`), at
    /// most so many.
    async fn drop_below_floor(&self, thread: ThreadPk, limit: u32) -> Result<Dropped>;
    /// What stands for the beginning that was deleted, and its last number; `None`: nothing was.
    async fn base(&self, thread: ThreadPk) -> Result<Option<(i64, String)>>;
}

impl Dropped {
    /// Of a statement that looked at so many at most.
    pub(crate) fn up_to(self, limit: u32) -> Self {
        Self { is_more: self.is_more || self.count >= u64::from(limit), ..self }
    }
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
