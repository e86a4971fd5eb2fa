//! The usage of model calls: tokens and cost.

use async_trait::async_trait;

use super::columns::Columns;
use super::page::{Cursor, Page, PageAsk, page_of};
use super::{Forgotten, Result, SpendChange, text};
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::domain::model::Usage;
use crate::domain::usage::{ModelUse, UsageGroup, UsageSum};

/// Which model calls to sum.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageAsk {
    pub tenant: TenantPk,
    pub group: UsageGroup,
    /// Only calls of this thread. Calls of deleted threads belong to no thread.
    pub thread: Option<ThreadPk>,
    /// Only calls whose reply came at this time or later.
    pub from: Millis,
    /// Only calls whose reply came before this time.
    pub to: Millis,
    /// By key, then sub-key.
    pub page: PageAsk,
}

/// The position of a call of an existing thread among those of its tenant, which are in the order of their times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallPosition {
    pub at: Millis,
    pub thread: ThreadPk,
    /// As it is stored.
    pub id: String,
}

/// What is read of usage. A part of [`Reads`](super::Reads).
#[async_trait]
pub trait UsageReads: Send + Sync + 'static {
    /// The usage of the tenant's model calls by group. Empty groups are left out, and calls that cannot be read.
    async fn usage(&self, ask: &UsageAsk) -> Result<Page<UsageSum>>;
    /// At most `limit` of the tenant's latest model calls whose reply came at `from` or later, of existing threads, newest
    /// first.
    async fn latest_calls(&self, tenant: TenantPk, from: Millis, limit: u32) -> Result<Vec<ModelUse>>;
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait UsageStore: Send + Sync + 'static {
    /// Stores model calls of no thread, whose replies came now, and what they spend.
    async fn add_usage(
        &self,
        tenant: TenantPk,
        now: Millis,
        calls: Vec<ModelUse>,
        spend: Vec<SpendChange>,
    ) -> Result<()>;
    /// One step of deleting the calls whose reply came before this, except those of threads that are on hold, or have terms
    /// of their own that keep them for ever. Deletes at most `limit`: calls of deleted threads, and those after `behind`.
    async fn forget_usage(
        &self,
        tenant: TenantPk,
        before: Millis,
        behind: &CallPosition,
        limit: u32,
    ) -> Result<Forgotten<CallPosition>>;
}

impl CallPosition {
    /// Before every call.
    pub fn beginning() -> Self {
        Self { at: Millis::MIN, thread: ThreadPk::NONE, id: String::new() }
    }

    /// Reads a row of a query that selects `ord, pk, id`.
    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        Ok(Self { at: row.number("ord")?, thread: ThreadPk(row.number("pk")?), id: row.text("id")?.to_owned() })
    }
}

impl UsageAsk {
    /// The last group of the previous page.
    pub(crate) fn after(&self) -> Result<(String, String)> {
        let id = Cursor::of(&self.page)?.map(|cursor| cursor.id).unwrap_or_default();
        let (key, sub) = id.split_once('\u{1f}').unwrap_or_default();
        Ok((key.to_owned(), sub.to_owned()))
    }

    /// Makes a page of these sums. If there are more than fit, it has a cursor.
    pub(crate) fn page_of(&self, mut sums: Vec<UsageSum>) -> Page<UsageSum> {
        let limit = self.page.limit as usize;
        let is_more = sums.len() > limit;
        sums.truncate(limit);
        let next_cursor = sums.last().filter(|_| is_more).map(|last| cursor_after(last).write());
        Page::new(sums, next_cursor)
    }
}

/// The cursor after this sum. Keys contain no control characters, so one separates them.
fn cursor_after(sum: &UsageSum) -> Cursor {
    Cursor::new(0, format!("{}\u{1f}{}", sum.key, sum.sub))
}

fn read_sum(row: &impl Columns) -> Result<UsageSum> {
    Ok(UsageSum {
        key: row.text("key")?.to_owned(),
        sub: row.text("sub")?.to_owned(),
        calls: row.count("calls")?,
        usage: Usage {
            input_tokens: row.count("input")?,
            output_tokens: row.count("output")?,
            thinking_tokens: row.count("thinking")?,
            cached_input_tokens: row.count("cached")?,
        },
        cost_nanos: row.number("cost")?,
        unpriced: row.count("unpriced")?,
    })
}

/// Parses the bodies of these rows. Those that cannot be read are left out.
pub(crate) fn read_calls(rows: &[impl Columns]) -> Result<Vec<ModelUse>> {
    let mut calls = Vec::with_capacity(rows.len());
    for row in rows {
        calls.extend(text::legible("usage", row.text("body")?));
    }
    Ok(calls)
}

/// A page of sums.
pub(crate) fn page_of_sums(rows: &[impl Columns], ask: &PageAsk) -> Result<Page<UsageSum>> {
    page_of(rows, ask, read_sum, |_, sum| Ok(cursor_after(sum)))
}
