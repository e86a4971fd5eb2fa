//! The usage of model calls: tokens and cost.

use async_trait::async_trait;

use super::columns::Columns;
use super::page::{Cursor, Page, PageAsk, page_of};
use super::{Result, text};
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::domain::model::Usage;
use crate::domain::usage::{ModelUse, UsageGroup, UsageSum};

/// Which model calls to sum.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageAsk {
    pub tenant: TenantPk,
    pub group: UsageGroup,
    /// Only calls of this one; those of deleted threads are no thread's any more.
    pub thread: Option<ThreadPk>,
    /// Calls answered from then on.
    pub from: Millis,
    /// And before then.
    pub to: Millis,
    /// By key, then sub-key.
    pub page: PageAsk,
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait UsageStore: Send + Sync + 'static {
    /// What the tenant's model calls took, of threads that were not erased; an empty group is left out.
    async fn usage(&self, ask: &UsageAsk) -> Result<Page<UsageSum>>;
    /// The tenant's latest model calls, of threads that are there, answered from then on: at most so many, newest first.
    async fn latest_calls(&self, tenant: TenantPk, from: Millis, limit: u32) -> Result<Vec<ModelUse>>;
    /// Forgets at most so many calls that were answered before then, but those of threads that are on hold, or say themselves
    /// that they are kept for ever; returns how many.
    async fn forget_usage(&self, tenant: TenantPk, before: Millis, limit: u32) -> Result<u64>;
}

impl UsageAsk {
    /// The group that the last page ended with.
    pub(crate) fn after(&self) -> Result<(String, String)> {
        let id = Cursor::of(&self.page)?.map(|cursor| cursor.id).unwrap_or_default();
        let (key, sub) = id.split_once('\u{1f}').unwrap_or_default();
        Ok((key.to_owned(), sub.to_owned()))
    }

    /// The page of these sums: if they are more than it holds there is another.
    pub(crate) fn page_of(&self, mut sums: Vec<UsageSum>) -> Page<UsageSum> {
        let limit = self.page.limit as usize;
        let is_more = sums.len() > limit;
        sums.truncate(limit);
        let next_cursor = sums.last().filter(|_| is_more).map(|last| behind(last).write());
        Page { items: sums, next_cursor }
    }
}

/// Keys hold no control characters.
fn behind(sum: &UsageSum) -> Cursor {
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

/// The bodies of these rows; what cannot be read is left out.
pub(crate) fn read_calls(rows: &[impl Columns]) -> Result<Vec<ModelUse>> {
    let mut calls = Vec::with_capacity(rows.len());
    for row in rows {
        calls.extend(text::legible("usage", row.text("body")?));
    }
    Ok(calls)
}

/// A page of sums.
pub(crate) fn page_of_sums(rows: &[impl Columns], ask: &PageAsk) -> Result<Page<UsageSum>> {
    page_of(rows, ask, read_sum, |_, sum| Ok(behind(sum)))
}
