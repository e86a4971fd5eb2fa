//! Data that may be too old: threads, and the older part of their logs; and the base that replaces that part after its
//! deletion.

use async_trait::async_trait;

use super::Result;
use super::columns::Columns;
use crate::domain::Millis;
use crate::domain::ids::{RunId, TenantPk, ThreadPk};
use crate::engine::step::RowKind;

/// The end of a run; also the position at which a list of them continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnd {
    pub at: Millis,
    pub run: RunId,
    pub thread: ThreadPk,
}

/// The part of a log that is removed from reading, and the base that replaces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compaction {
    pub thread: ThreadPk,
    /// The first seq of the log when it was read.
    pub min_seq: i64,
    /// The last observation of that part: it must be the last of its commit.
    pub upto: i64,
    /// The fold of that part, as text.
    pub base: String,
    /// Names in the previous base that nothing refers to any more.
    pub unnamed: Vec<String>,
}

impl Compaction {
    /// `unnamed` as a body of the old part of the log; `None`: there are none.
    pub(crate) fn unnamed_text(&self) -> Option<String> {
        let text = || serde_json::to_string(&self.unnamed).expect("texts are JSON");
        (!self.unnamed.is_empty()).then(text)
    }
}

/// The result of one deleting transaction, which deletes a few megabytes at most, so that commits do not wait for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// How many rows or log entries were deleted.
    pub count: u64,
    /// Others are left that did not fit into the transaction.
    pub is_more: bool,
}

/// What is read for retention. A part of [`Reads`](super::Reads).
#[async_trait]
pub trait RetentionReads: Send + Sync + 'static {
    /// All tenants, by name.
    async fn tenants(&self) -> Result<Vec<(TenantPk, String)>>;
    /// Threads of the tenant without active work (idle, failed or quarantined) after `behind` that were not used since
    /// `before`, the longest unused first.
    async fn threads_at_rest(
        &self,
        tenant: TenantPk,
        before: Millis,
        behind: (Millis, ThreadPk),
        limit: u32,
    ) -> Result<Vec<(Millis, ThreadPk)>>;
    /// Threads after `behind` with terms of their own, or imported ones, with their tenants.
    async fn threads_with_terms(&self, behind: ThreadPk, limit: u32) -> Result<Vec<(ThreadPk, TenantPk)>>;
    /// Runs of the tenant whose status last changed before `before`, in the order of that, after `behind`.
    async fn runs_since(&self, tenant: TenantPk, behind: &RunEnd, before: Millis, limit: u32) -> Result<Vec<RunEnd>>;
    /// The position up to which the tenant's runs were examined.
    async fn compacted(&self, tenant: TenantPk) -> Result<RunEnd>;
    /// The seq of the last log entry whose observations are all up to `upto`; `None`: there is none.
    async fn last_entry(&self, thread: ThreadPk, upto: i64) -> Result<Option<i64>>;
    /// Stored entries of a log up to this seq, which lies before its beginning, with their bodies, in order: each with the
    /// seq of its last observation.
    async fn old_entries(&self, thread: ThreadPk, upto: i64, limit: u32) -> Result<Vec<(i64, String)>>;
    /// The base that replaces the deleted beginning, with its last seq; `None`: nothing was deleted.
    async fn base(&self, thread: ThreadPk) -> Result<Option<(i64, String)>>;
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait RetentionStore: Send + Sync + 'static {
    async fn set_compacted(&self, tenant: TenantPk, upto: &RunEnd) -> Result<()>;
    /// Moves the beginning of a log: what lies before can no longer be read. The `unnamed` names are stored with its old
    /// entries, so that they are found with them. `false`: the log does not begin at `min_seq` any more, or is on hold, and
    /// nothing was done.
    async fn compact(&self, compaction: Compaction) -> Result<bool>;
    /// Deletes entries before the beginning of a log, up to this seq.
    async fn drop_entries(&self, thread: ThreadPk, upto: i64) -> Result<Dropped>;
    /// Deletes those of these rows that are never loaded with their thread (`Keep::Never`).
    async fn drop_rows(&self, thread: ThreadPk, rows: Vec<(RowKind, String)>) -> Result<Dropped>;
    /// Deletes at most `limit` rows that are no longer loaded because their `ord` is below the thread's floor
    /// (`Keep::UntilFloor`).
    async fn drop_below_floor(&self, thread: ThreadPk, limit: u32) -> Result<Dropped>;
}

impl Dropped {
    /// The result of a statement that was limited to this number of rows.
    pub(crate) fn up_to(self, limit: u32) -> Self {
        Self { is_more: self.is_more || self.count >= u64::from(limit), ..self }
    }
}

impl RunEnd {
    /// A position before every run.
    pub(crate) fn beginning() -> Self {
        Self { at: Millis::MIN, run: "".into(), thread: ThreadPk::NONE }
    }

    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        Ok(Self { at: row.number("at")?, run: row.name("run")?.into(), thread: ThreadPk(row.number("pk")?) })
    }
}
