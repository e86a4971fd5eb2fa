//! Threads: their own rows, and the commits that change them. In the table `threads`, `sheet` holds the profile, as JSON.

use std::collections::HashMap;

use async_trait::async_trait;

use super::columns::Columns;
use super::page::{Cursor, Page, PageAsk, page_of};
use super::{Commit, Committed, Crashes, Erasure, Fence, IdempotencyRow, NewThread, Result, text};
use crate::domain::Millis;
use crate::domain::ids::{RunId, TenantPk, ThreadId, ThreadPk};
use crate::domain::plan::ItemStatus;
use crate::domain::run::ResultStatus;
use crate::domain::thread::{ItemCounts, LastRun, ThreadProfile, ThreadStatus};
use crate::domain::usage::Nanos;
use crate::engine::step::Row;

/// A thread's own row.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadRow {
    pub pk: ThreadPk,
    pub tenant: TenantPk,
    pub thread_id: ThreadId,
    pub fence: Fence,
    /// The replica that took the lease, alive or not.
    pub replica: Option<uuid::Uuid>,
    pub core: String,
    /// Empty until a commit brought one.
    pub head: String,
    pub status: ThreadStatus,
    pub profile: ThreadProfile,
    pub wake_at: Option<Millis>,
    pub floor: i64,
    pub last_seq: i64,
    pub min_seq: i64,
    /// Whether its replica is registered: it is alive, or not known to be dead yet.
    pub is_owned: bool,
    pub crashes: Crashes,
    pub created_at: Millis,
    /// The last visible activity: a new status, a message, an edit of the profile.
    pub updated_at: Millis,
    /// The name of the key that created it.
    pub created_by: String,
}

/// A thread's version and the bounds of its log, to detect that another process wrote it, or that the beginning of the log
/// was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadVersion {
    pub pk: ThreadPk,
    pub version: i64,
    pub min_seq: i64,
    pub last_seq: i64,
}

/// A thread that was active lately or runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecentThread {
    pub pk: ThreadPk,
    pub thread_id: ThreadId,
    pub version: i64,
}

/// The state of a thread in numbers, counted over its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Outline {
    pub pk: ThreadPk,
    pub items: ItemCounts,
    pub open_questions: u64,
    pub last_run: Option<LastRun>,
}

/// What the runs of a thread cost up to one of them. All of them have ended, so it stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedCost {
    /// The number and the id of the last of these runs.
    pub ord: i64,
    pub run: RunId,
    /// `None`: no call had a price.
    pub nanos: Option<Nanos>,
}

/// What the runs of a thread cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunCosts {
    pub pk: ThreadPk,
    /// Those before the first that has not ended.
    pub ended: Option<EndedCost>,
    /// All of them; `None`: no call had a price.
    pub nanos: Option<Nanos>,
}

#[derive(Clone, Debug, Default)]
pub struct ThreadFilter {
    pub status: Option<ThreadStatus>,
    /// Part of the title or the id, without regard to case.
    pub q: Option<String>,
    /// The result of the newest run.
    pub result: Option<ResultStatus>,
}

impl ThreadFilter {
    /// Whether it excludes threads, so that more rows are scanned than found.
    pub(crate) fn is_narrow(&self) -> bool {
        self.status.is_some() || self.q.is_some() || self.result.is_some()
    }
}

/// How many rows a filter scans for one page, so that the cost of a search does not grow with the number of stored rows.
pub const MAX_SCANNED: u32 = 5_000;

/// What is read of threads. A part of [`Reads`](super::Reads).
#[async_trait]
pub trait ThreadReads: Send + Sync + 'static {
    async fn thread(&self, tenant: TenantPk, id: &ThreadId) -> Result<Option<ThreadRow>>;
    async fn thread_by_pk(&self, pk: ThreadPk) -> Result<Option<ThreadRow>>;
    /// These threads in no order. Deleted ones are left out.
    async fn threads_by_pk(&self, pks: &[ThreadPk]) -> Result<Vec<ThreadRow>>;
    /// The thread and the rows it is rebuilt from (`Keep::Always`, and `UntilFloor` from the floor on), read in one
    /// snapshot, ordered by kind, then `ord`, then id. Rows of kinds that a newer release added are left out.
    async fn load(&self, pk: ThreadPk) -> Result<Option<(ThreadRow, Vec<Row>)>>;
    /// The current versions and seqs of these threads, in no order. Deleted ones are left out.
    async fn thread_versions(&self, pks: &[ThreadPk]) -> Result<Vec<ThreadVersion>>;
    /// Threads of the tenant that were active at this time or later, or are running.
    async fn recent_threads(&self, tenant: TenantPk, since: Millis) -> Result<Vec<RecentThread>>;
    /// The time of the newest activity of any thread, of those until this time.
    async fn newest_activity(&self, until: Millis) -> Result<Option<Millis>>;
    /// The outlines of these threads, in no order. Rows that cannot be read, or are of a status that a newer release added,
    /// are not counted. A NUL in the query is replaced, or ends it.
    async fn outlines(&self, pks: &[ThreadPk]) -> Result<Vec<Outline>>;
    /// What the runs of these threads cost, in no order. Only the runs after those of which the cost is `known` are read, if
    /// the last of these is still there. Rows that cannot be read are not counted.
    async fn run_costs(&self, pks: &[ThreadPk], known: &HashMap<ThreadPk, EndedCost>) -> Result<Vec<RunCosts>>;
    /// The titles of these threads, in no order. Threads without a title are left out.
    async fn titles(&self, pks: &[ThreadPk]) -> Result<Vec<(ThreadPk, String)>>;
    /// Newest activity first. Scans at most [`MAX_SCANNED`] threads, and reads about
    /// [`MAX_PAGE_BYTES`](super::MAX_PAGE_BYTES) of their profiles and heads: a page may be short or empty, and continue at
    /// its cursor.
    async fn threads(&self, tenant: TenantPk, filter: &ThreadFilter, page: &PageAsk) -> Result<Page<ThreadRow>>;
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait ThreadStore: Send + Sync + 'static {
    /// Creates an idle thread with these rows. `Done`: it is durable. `Exists`: the id is taken, and nothing was written.
    async fn create_thread(
        &self,
        pk: ThreadPk,
        new: NewThread,
        profile: ThreadProfile,
        rows: Vec<Row>,
        idempotency: Option<IdempotencyRow>,
    ) -> Result<Committed> {
        self.commit(Commit { rows, ..Commit::creating(pk, new, profile, idempotency) }).await
    }
    /// Applies one transition. After `Ok(Done)` all of it is durable and readable by everybody; otherwise nothing of it
    /// is stored. `Err(Unavailable)` is returned only when it is certain that it was not applied: an ambiguous end is
    /// settled by the token first. Commits of one thread are applied in the order in which they were sent. Dropping the
    /// future does not cancel a commit that was sent.
    async fn commit(&self, commit: Commit) -> Result<Committed>;
    /// Deletes the thread with everything except its audit, to which a line is added, and its usage, including that of the
    /// calls that were stopped for it, which counts for a run called `deleted` from then on. The thread is deleted when this
    /// returns; rows of a large thread, which nobody can find any more, are removed later by
    /// [`ErasureStore`](super::ErasureStore).
    /// `false`: the thread is not as it was read, and is kept.
    async fn delete_thread(&self, erasure: Erasure) -> Result<bool>;
}

impl ThreadRow {
    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        Self::with_profile(row, text::read_profile(row.text("sheet")?)?)
    }

    fn with_profile(row: &impl Columns, profile: ThreadProfile) -> Result<Self> {
        Ok(Self {
            pk: ThreadPk(row.number("pk")?),
            tenant: TenantPk(row.number("tenant")?),
            thread_id: row.name("thread_id")?.into(),
            fence: Fence {
                epoch: row.number("epoch")?,
                lease: row.id_or_none("lease")?,
                version: row.number("version")?,
            },
            replica: row.id_or_none("replica")?,
            core: row.text("core")?.to_owned(),
            head: row.text("head")?.to_owned(),
            status: text::word(row.text("status")?)?,
            profile,
            wake_at: row.number_or_none("wake_at")?,
            floor: row.number("floor")?,
            last_seq: row.number("last_seq")?,
            min_seq: row.number("min_seq")?,
            is_owned: row.flag("is_owned")?,
            crashes: Crashes::read(row)?,
            created_at: row.number("created_at")?,
            updated_at: row.number("updated_at")?,
            created_by: row.name("created_by")?,
        })
    }
}

impl Outline {
    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        let status = row.text_or_none("run_status")?.and_then(|status| text::word(status).ok());
        let last_run = match (row.text_or_none("run")?, status) {
            (Some(run), Some(status)) => Some(LastRun {
                run_id: run.into(),
                status,
                result_status: row.text_or_none("run_result")?.and_then(|status| text::word(status).ok()),
                query: row.text_or_none("query")?.unwrap_or_default().to_owned(),
            }),
            (_, _) => None,
        };
        Ok(Self {
            pk: ThreadPk(row.number("pk")?),
            items: item_counts(row.count("items")?, row.text_or_none("statuses")?.unwrap_or_default()),
            open_questions: row.count("questions")?,
            last_run,
        })
    }
}

impl RunCosts {
    /// Reads a row of a query that selects `pk`, `known` (the number of the last run that was not read, if it is there),
    /// `ended_cost` and `rest_cost`, and the number and the id of the last ended run.
    pub(crate) fn read(row: &impl Columns, known: &HashMap<ThreadPk, EndedCost>) -> Result<Self> {
        let pk = ThreadPk(row.number("pk")?);
        let is_known = row.number_or_none("known")?.is_some();
        let before = known.get(&pk).filter(|_| is_known).cloned();
        let nanos = sum(before.as_ref().and_then(|before| before.nanos), row.number_or_none("ended_cost")?);
        let last = match (row.number_or_none("last_ord")?, row.text_or_none("last_run")?) {
            (Some(ord), Some(run)) => Some(EndedCost { ord, run: run.into(), nanos }),
            (_, _) => before,
        };
        Ok(Self { pk, ended: last, nanos: sum(nanos, row.number_or_none("rest_cost")?) })
    }
}

/// `None`: neither is known.
fn sum(one: Option<Nanos>, other: Option<Nanos>) -> Option<Nanos> {
    one.map(|one| one + other.unwrap_or_default()).or(other)
}

/// The number and the id of the last run of each thread of which the cost is known; none is a run that no thread has.
pub(crate) fn last_known(pks: &[ThreadPk], known: &HashMap<ThreadPk, EndedCost>) -> Vec<(i64, i64, String)> {
    let none = || (i64::MIN, String::new());
    let last = |pk| known.get(pk).map_or_else(none, |known: &EndedCost| (known.ord, known.run.to_string()));
    let asked = pks.iter().map(|pk| (pk.0, last(pk)));
    asked.map(|(pk, (ord, run))| (pk, ord, run)).collect()
}

/// Counts the items by status. `statuses` are separated by commas.
fn item_counts(total: u64, statuses: &str) -> ItemCounts {
    let mut items = ItemCounts { total, ..ItemCounts::default() };
    for status in statuses.split(',').filter_map(|status| text::word(status).ok()) {
        match status {
            ItemStatus::Completed => items.done += 1,
            ItemStatus::Failed => items.failed += 1,
            ItemStatus::Cancelled => items.cancelled += 1,
            ItemStatus::InProgress => items.running += 1,
            ItemStatus::Waiting => items.waiting += 1,
            ItemStatus::Pending => {}
        }
    }
    items
}

/// Reads a row of a query that selects `pk, sheet`.
pub(crate) fn read_title(row: &impl Columns) -> Result<Option<(ThreadPk, String)>> {
    let title = text::shown_profile(row.text("sheet")?).title;
    let pk = ThreadPk(row.number("pk")?);
    Ok(title.map(|title| (pk, title)))
}

impl RecentThread {
    /// Reads a row of a query that selects `pk, thread_id, version`.
    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        let (pk, thread_id) = (ThreadPk(row.number("pk")?), row.name("thread_id")?.into());
        Ok(Self { pk, thread_id, version: row.number("version")? })
    }
}

impl ThreadVersion {
    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        Ok(Self {
            pk: ThreadPk(row.number("pk")?),
            version: row.number("version")?,
            min_seq: row.number("min_seq")?,
            last_seq: row.number("last_seq")?,
        })
    }
}

/// The position before which a page of threads begins: time and key.
pub(crate) fn threads_before(ask: &PageAsk) -> Result<(Millis, i64)> {
    let cursor = Cursor::of(ask)?;
    Ok(cursor.map_or((i64::MAX, i64::MAX), |cursor| (cursor.at, cursor.id.parse().unwrap_or(0))))
}

/// A page of threads, which continues after the last scanned one.
pub(crate) fn page_of_threads<R: Columns>(
    rows: &[R],
    ask: &PageAsk,
    looked_at: Option<(Millis, i64)>,
) -> Result<Page<ThreadRow>> {
    let place = |(at, pk): (Millis, i64)| Cursor::new(at, pk.to_string());
    let read = |row: &R| ThreadRow::with_profile(row, text::shown_profile(row.text("sheet")?));
    let page = page_of(rows, ask, read, |_, thread| Ok(place((thread.updated_at, thread.pk.0))))?;
    Ok(page.or_continue_after(looked_at.map(place)))
}
