//! What is asked of lists and logs, and the pages that answer.

use crate::domain::observation::ObservationType;
use crate::domain::thread::ThreadStatus;

/// Keyset paging: everything strictly after `cursor` in the list's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageAsk {
    pub cursor: Option<String>,
    pub limit: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub next_cursor: Option<String>,
}

impl<T> Page<T> {
    pub fn map<U>(self, change: impl FnMut(T) -> U) -> Page<U> {
        Page { items: self.items.into_iter().map(change).collect(), next_cursor: self.next_cursor }
    }
}

#[derive(Clone, Debug, Default)]
pub struct ThreadFilter {
    pub status: Option<ThreadStatus>,
    /// Part of the title or the id, without regard to case.
    pub q: Option<String>,
}

impl ThreadFilter {
    /// Whether it leaves threads out, so that more are looked at than found.
    pub(crate) fn is_narrow(&self) -> bool {
        self.status.is_some() || self.q.is_some()
    }
}

/// How many threads a filter is tried on for one page: what a search costs does not grow with what is stored.
pub const LOOKED_AT: u32 = 5_000;

/// Which observations to read; ordered by seq.
#[derive(Clone, Debug, Default)]
pub struct ObservationAsk {
    /// Only seq greater than this.
    pub after: i64,
    /// Only seq up to this, if given.
    pub until: Option<i64>,
    pub limit: u32,
    /// Empty = all.
    pub types: Vec<ObservationType>,
}
