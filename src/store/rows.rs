//! The rows of threads: runs, messages, suspensions, tasks, payloads; of one thread, and across those of a tenant.
//!
//! In statements, `kind` and `keep` are the codes of [`RowKind`] and [`Keep`](crate::engine::step::Keep), mostly as literals:
//! a planner uses a partial index only if the text of the query names its condition.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::columns::Columns;
use super::page::{Cursor, Order, Page, PageAsk, fitting, page_of, within_bytes};
use super::{Result, text};
use crate::domain::Millis;
use crate::domain::hitl::SuspensionStatus;
use crate::domain::ids::{MessageId, PayloadId, TenantPk, ThreadId, ThreadPk};
use crate::domain::message::ConversationMessage;
use crate::domain::run::CallerStatus;
use crate::engine::step::{Row, RowKind};

/// The place of a row: its thread, its kind and its id.
pub type RowKey = (ThreadPk, RowKind, String);

/// A row found by its id, with its thread.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundRow {
    pub pk: ThreadPk,
    pub thread_id: ThreadId,
    pub row: Row,
}

/// Which runs to list.
#[derive(Clone, Debug)]
pub struct RunsByStatusAsk {
    pub tenant: TenantPk,
    pub thread: Option<ThreadPk>,
    /// Empty = all.
    pub statuses: Vec<CallerStatus>,
    /// Only those whose status changed at this time or later.
    pub since: Option<Millis>,
    pub page: PageAsk,
}

/// Which suspensions to list.
#[derive(Clone, Debug)]
pub struct SuspensionAsk {
    pub tenant: TenantPk,
    pub thread: Option<ThreadPk>,
    pub wanted: SuspensionsWanted,
    pub page: PageAsk,
}

/// See [`SuspensionAsk`].
#[derive(Clone, Debug, PartialEq)]
pub enum SuspensionsWanted {
    /// Those that can be answered, oldest first (their ids sort by time).
    Open,
    /// The same, ordered by expiry; those that never expire come last.
    OpenByExpiry,
    /// All suspensions, ended ones too, newest first. Scans at most [`MAX_SCANNED`](super::MAX_SCANNED) of them, of the
    /// thread if one is named: a page may be short or empty, and continue at its cursor.
    Past { status: Option<SuspensionStatus>, decided_by: Option<String> },
}

/// What is read of rows. A part of [`Reads`](super::Reads). A page of rows reads about
/// [`MAX_PAGE_BYTES`](super::MAX_PAGE_BYTES) of them: it may be short, and continue at its cursor. A larger row is a page of
/// its own.
#[async_trait]
pub trait RowStore: Send + Sync + 'static {
    async fn row(&self, pk: ThreadPk, kind: RowKind, id: &str) -> Result<Option<Row>>;
    /// A run, suspension or task of this tenant by its id; rows of other kinds are not found this way.
    async fn find_row(&self, tenant: TenantPk, kind: RowKind, id: &str) -> Result<Option<FoundRow>>;
    /// Rows of a kind by `ord`; the cursor is opaque.
    async fn rows(&self, pk: ThreadPk, kind: RowKind, order: Order, page: &PageAsk) -> Result<Page<Row>>;
    /// The conversation, oldest first: messages that were not superseded.
    async fn messages(&self, pk: ThreadPk, page: &PageAsk) -> Result<Page<Row>>;
    /// The newest `limit` messages of the conversation before this one (of all, if it does not exist), oldest first; fewer if
    /// they have more than `bytes` together, but at least one. Messages that cannot be read are left out; if that is all of
    /// them, those before are read. Mostly two queries: one for the sizes, one for the messages that fit.
    async fn history(
        &self,
        pk: ThreadPk,
        before: &MessageId,
        limit: u32,
        bytes: u64,
    ) -> Result<Vec<ConversationMessage>>;
    async fn payloads(&self, pk: ThreadPk, ids: &[PayloadId]) -> Result<Vec<(PayloadId, Arc<Value>)>>;
    /// Those of these rows that exist, in no order.
    async fn rows_by_id(&self, wanted: &[RowKey]) -> Result<Vec<(ThreadPk, Row)>>;
    /// The sizes in bytes of those of these rows that exist, in no order.
    async fn row_bytes(&self, wanted: &[RowKey]) -> Result<Vec<(RowKey, u64)>>;
    async fn suspensions(&self, ask: &SuspensionAsk) -> Result<Page<FoundRow>>;
    /// The tasks that the tenant's threads delegated to other agents, newest first.
    async fn tasks(&self, tenant: TenantPk, page: &PageAsk) -> Result<Page<FoundRow>>;
    /// The tenant's runs by caller status, the most recently changed first.
    async fn runs_by_caller_status(&self, ask: &RunsByStatusAsk) -> Result<Page<FoundRow>>;
    /// How many runs there are on all pages.
    async fn count_by_caller_status(&self, ask: &RunsByStatusAsk) -> Result<u64>;
}

impl RunsByStatusAsk {
    /// The earliest change.
    pub(crate) fn since(&self) -> Millis {
        self.since.unwrap_or(Millis::MIN)
    }

    /// The bodies of the status rows to find.
    pub(crate) fn bodies(&self) -> Vec<String> {
        let text = |status: &CallerStatus| serde_json::to_string(status).expect("a word is JSON");
        self.statuses.iter().map(text).collect()
    }

    /// The position before which the page begins.
    pub(crate) fn before(&self) -> Result<Cursor> {
        let top = || Cursor::new(Millis::MAX, "");
        Ok(Cursor::of(&self.page)?.unwrap_or_else(top))
    }
}

/// Reads a row of a query that selects `kind, id, ord, keep, body`.
pub(crate) fn read_row(row: &impl Columns) -> Result<Row> {
    let (kind, id, ord, keep, body) = columns(row)?;
    text::row(kind, id, ord, keep, body)
}

/// Reads the rows of a thread that is loaded. Rows of unknown kinds are left out.
pub(crate) fn read_known_rows(rows: &[impl Columns]) -> Result<Vec<Row>> {
    let read = |row| match columns(row) {
        Ok((kind, id, ord, keep, body)) => text::known_row(kind, id, ord, keep, body),
        Err(error) => Some(Err(error)),
    };
    rows.iter().filter_map(read).collect()
}

fn columns(row: &impl Columns) -> Result<(i16, String, i64, i16, String)> {
    let code = |column| i16::try_from(row.number(column)?).map_err(|why| text::damaged("row", why));
    Ok((code("kind")?, row.name("id")?, row.number("ord")?, code("keep")?, row.text("body")?.to_owned()))
}

impl FoundRow {
    /// Reads a row of a query that also selects `pk, thread_id`.
    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        Ok(Self { pk: ThreadPk(row.number("pk")?), thread_id: row.name("thread_id")?.into(), row: read_row(row)? })
    }
}

/// Reads a row of a query that selects `pk, kind, id`.
fn read_key(row: &impl Columns) -> Result<RowKey> {
    let kind = i16::try_from(row.number("kind")?).ok().and_then(RowKind::of_code);
    let kind = kind.ok_or_else(|| text::damaged("row", "its kind is unknown"))?;
    Ok((ThreadPk(row.number("pk")?), kind, row.name("id")?))
}

/// Reads a row of a query that selects `pk, kind, id, bytes`.
pub(crate) fn read_bytes(row: &impl Columns) -> Result<(RowKey, u64)> {
    Ok((read_key(row)?, row.count("bytes")?))
}

/// A row of a list, whose body is not read yet.
pub(crate) struct FoundKey {
    key: RowKey,
    thread_id: ThreadId,
}

impl FoundKey {
    /// Reads a row of a query that selects `pk, thread_id, kind, id`.
    fn read(row: &impl Columns) -> Result<Self> {
        Ok(Self { key: read_key(row)?, thread_id: row.name("thread_id")?.into() })
    }
}

/// Reads the bodies of a page. Rows that were deleted meanwhile are left out.
pub(crate) async fn read_page(store: &impl RowStore, page: Page<RowKey>) -> Result<Page<Row>> {
    let mut rows = read_by_key(store, page.items.clone()).await?;
    Ok(page.filter_map(|key| rows.remove(&key)))
}

/// Like [`read_page`], with the threads of the rows.
pub(crate) async fn read_found_page(store: &impl RowStore, page: Page<FoundKey>) -> Result<Page<FoundRow>> {
    let mut rows = read_by_key(store, page.items.iter().map(|found| found.key.clone()).collect()).await?;
    let found =
        |FoundKey { key, thread_id }: FoundKey| Some(FoundRow { row: rows.remove(&key)?, pk: key.0, thread_id });
    Ok(page.filter_map(found))
}

/// The first of the rows of a query that selects `pk, kind, id, bytes`: those that fit into so many bytes.
pub(crate) fn fitting_keys(rows: &[impl Columns], bytes: u64) -> Result<Vec<RowKey>> {
    let sizes = rows.iter().map(read_bytes).collect::<Result<Vec<_>>>()?;
    let most = fitting(sizes.iter().map(|(_, bytes)| *bytes), bytes);
    Ok(sizes.into_iter().take(most).map(|(key, _)| key).collect())
}

/// Reads the newest messages before this one that can be read, oldest first. `keys` are those of the messages before one, as
/// many as are to be read at once, newest first.
pub(crate) async fn read_history<F>(
    store: &impl RowStore,
    mut before: MessageId,
    keys: impl Fn(MessageId) -> F,
) -> Result<Vec<ConversationMessage>>
where
    F: Future<Output = Result<Vec<RowKey>>>,
{
    loop {
        let keys = keys(before).await?;
        let mut rows = read_by_key(store, keys.clone()).await?;
        let found: Vec<_> = keys.iter().rev().filter_map(|key| text::message(&rows.remove(key)?.body)).collect();
        match keys.last() {
            Some((.., oldest)) if found.is_empty() => before = oldest.as_str().into(),
            Some(_) | None => return Ok(found),
        }
    }
}

async fn read_by_key(store: &impl RowStore, keys: Vec<RowKey>) -> Result<HashMap<RowKey, Row>> {
    Ok(if keys.is_empty() { HashMap::new() } else { by_key(store.rows_by_id(&keys).await?) })
}

/// What [`RowStore::rows_by_id`] returned, to be looked up.
pub(crate) fn by_key(rows: Vec<(ThreadPk, Row)>) -> HashMap<RowKey, Row> {
    rows.into_iter().map(|(pk, row)| ((pk, row.kind, row.id.clone()), row)).collect()
}

/// Reads the rows of a query that selects `id, body`. A payload that cannot be read is left out.
pub(crate) fn payloads(rows: &[impl Columns]) -> Result<Vec<(PayloadId, Arc<Value>)>> {
    let read = rows.iter().map(|row| Ok((row.name("id")?, row.text("body")?))).collect::<Result<Vec<_>>>()?;
    Ok(read.into_iter().filter_map(|(id, body)| text::payload(&id, body)).collect())
}

/// The position at which a page of a thread's rows begins.
pub(crate) fn rows_from(ask: &PageAsk, order: Order) -> Result<Cursor> {
    let start = || match order {
        Order::Ascending => Cursor::new(i64::MIN, ""),
        Order::Descending => Cursor::new(i64::MAX, "\u{10FFFF}"),
    };
    Ok(Cursor::of(ask)?.unwrap_or_else(start))
}

/// A page of a thread's rows, which were selected with `ord` and `bytes`.
pub(crate) fn page_of_rows<R: Columns>(rows: &[R], ask: &PageAsk) -> Result<Page<RowKey>> {
    page_of(rows, &within_bytes(ask, rows)?, read_key, |row, key| Ok(Cursor::new(row.number("ord")?, key.2.clone())))
}

/// A page of rows of several threads, which were selected with `bytes`. `at` is the sort number of each.
fn page_of_found<R: Columns>(rows: &[R], ask: &PageAsk, at: impl Fn(&R) -> Result<i64>) -> Result<Page<FoundKey>> {
    let place = |row: &R, found: &FoundKey| Ok(Cursor::new(at(row)?, found.key.2.clone()));
    page_of(rows, &within_bytes(ask, rows)?, FoundKey::read, place)
}

/// The id after which a page of suspensions begins.
pub(crate) fn suspensions_after(ask: &PageAsk) -> Result<String> {
    Ok(Cursor::of(ask)?.map(|cursor| cursor.id).unwrap_or_default())
}

/// The prefix of suspension ids.
pub(crate) const SUSPENSIONS: &str = "sus_";

/// The id before which a page of past suspensions begins.
pub(crate) fn suspensions_before(ask: &PageAsk) -> Result<String> {
    Ok(Cursor::of(ask)?.map_or_else(|| format!("{SUSPENSIONS}~"), |cursor| cursor.id))
}

/// The expiry and id after which a page of suspensions by expiry begins.
pub(crate) fn expiring_after(ask: &PageAsk) -> Result<Cursor> {
    Ok(Cursor::of(ask)?.unwrap_or_else(|| Cursor::new(i64::MIN, "")))
}

/// A page of suspensions by their `expiry`.
pub(crate) fn page_by_expiry(rows: &[impl Columns], ask: &PageAsk) -> Result<Page<FoundKey>> {
    page_of_found(rows, ask, |row| row.number("expiry"))
}

/// A page of past suspensions, which continues after the last scanned one.
pub(crate) fn page_of_past(rows: &[impl Columns], ask: &PageAsk, looked_at: Option<String>) -> Result<Page<FoundKey>> {
    Ok(page_by_id(rows, ask)?.or_continue_after(looked_at.map(|id| Cursor::new(0, id))))
}

/// Reads a row of a query that selects `pk` and the columns of a row.
pub(crate) fn read_row_with_pk(row: &impl Columns) -> Result<(ThreadPk, Row)> {
    Ok((ThreadPk(row.number("pk")?), read_row(row)?))
}

/// The prefix of task ids.
pub(crate) const TASKS: &str = "task_";

/// The id before which a page of tasks begins.
pub(crate) fn tasks_before(ask: &PageAsk) -> Result<String> {
    Ok(Cursor::of(ask)?.map_or_else(|| format!("{TASKS}~"), |cursor| cursor.id))
}

/// A page in the order of ids.
pub(crate) fn page_by_id(rows: &[impl Columns], ask: &PageAsk) -> Result<Page<FoundKey>> {
    page_of_found(rows, ask, |_| Ok(0))
}

/// A page of runs; `since` is when the status of each changed last.
pub(crate) fn page_by_caller_status(rows: &[impl Columns], ask: &PageAsk) -> Result<Page<FoundKey>> {
    page_of_found(rows, ask, |row| row.number("since"))
}
