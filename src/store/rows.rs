//! The rows of threads: runs, messages, suspensions, tasks, payloads; of one thread, and across those of a tenant.
//!
//! In statements, `kind` and `keep` are the codes of [`RowKind`] and [`Keep`](crate::engine::step::Keep), mostly as literals:
//! a planner uses a partial index only if the text of the query names its condition.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::columns::Columns;
use super::page::{Cursor, Order, Page, PageAsk, page_of};
use super::{Result, text};
use crate::domain::Millis;
use crate::domain::hitl::SuspensionStatus;
use crate::domain::ids::{MessageId, PayloadId, TenantPk, ThreadId, ThreadPk};
use crate::domain::message::ConversationMessage;
use crate::domain::run::CallerStatus;
use crate::engine::step::{Row, RowKind};

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

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait RowStore: Send + Sync + 'static {
    async fn row(&self, pk: ThreadPk, kind: RowKind, id: &str) -> Result<Option<Row>>;
    /// A run, suspension or task of this tenant by its id; rows of other kinds are not found this way.
    async fn find_row(&self, tenant: TenantPk, kind: RowKind, id: &str) -> Result<Option<FoundRow>>;
    /// Rows of a kind by `ord`; the cursor is opaque.
    async fn rows(&self, pk: ThreadPk, kind: RowKind, order: Order, page: &PageAsk) -> Result<Page<Row>>;
    /// The conversation, oldest first: messages that were not superseded.
    async fn messages(&self, pk: ThreadPk, page: &PageAsk) -> Result<Page<Row>>;
    /// The newest `limit` messages of the conversation before this one (of all, if it does not exist), oldest first.
    async fn history(&self, pk: ThreadPk, before: &MessageId, limit: u32) -> Result<Vec<ConversationMessage>>;
    async fn payloads(&self, pk: ThreadPk, ids: &[PayloadId]) -> Result<Vec<(PayloadId, Arc<Value>)>>;
    /// Those of these rows that exist, in no order.
    async fn rows_by_id(&self, wanted: &[(ThreadPk, RowKind, String)]) -> Result<Vec<(ThreadPk, Row)>>;
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

/// Reads the rows of a query that selects `body`. A message that cannot be read is left out.
pub(crate) fn messages<'a>(rows: impl Iterator<Item = &'a (impl Columns + 'a)>) -> Result<Vec<ConversationMessage>> {
    let bodies = rows.map(|row| row.text("body")).collect::<Result<Vec<_>>>()?;
    Ok(bodies.into_iter().filter_map(text::message).collect())
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

pub(crate) fn page_of_rows(rows: &[impl Columns], ask: &PageAsk) -> Result<Page<Row>> {
    page_of(rows, ask, read_row, |_, row| Ok(Cursor::new(row.ord, row.id.clone())))
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
pub(crate) fn page_by_expiry(rows: &[impl Columns], ask: &PageAsk) -> Result<Page<FoundRow>> {
    page_of(rows, ask, FoundRow::read, |row, found| Ok(Cursor::new(row.number("expiry")?, found.row.id.clone())))
}

/// A page of past suspensions, which continues after the last scanned one.
pub(crate) fn page_of_past(rows: &[impl Columns], ask: &PageAsk, looked_at: Option<String>) -> Result<Page<FoundRow>> {
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
pub(crate) fn page_by_id(rows: &[impl Columns], ask: &PageAsk) -> Result<Page<FoundRow>> {
    page_of(rows, ask, FoundRow::read, |_, found| Ok(Cursor::new(0, found.row.id.clone())))
}

/// A page of runs; `since` is when the status of each changed last.
pub(crate) fn page_by_caller_status(rows: &[impl Columns], ask: &PageAsk) -> Result<Page<FoundRow>> {
    page_of(rows, ask, FoundRow::read, |row, run| Ok(Cursor::new(row.number("since")?, run.row.id.clone())))
}
