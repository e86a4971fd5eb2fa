//! Reads a paged list as one stream of entries.

use std::future::Future;
use std::vec;

use crate::store::{Page, PageAsk, Result};

/// The entries from a page on, read page by page as they are asked for.
pub(crate) struct Entries<T, R> {
    read: R,
    /// The next page; `None`: there is no other.
    ask: Option<PageAsk>,
    ready: vec::IntoIter<T>,
}

impl<T, R, F> Entries<T, R>
where
    R: Fn(PageAsk) -> F,
    F: Future<Output = Result<Page<T>>>,
{
    /// From `first` on, whose limit is that of every page.
    pub(crate) fn from(first: PageAsk, read: R) -> Self {
        Self { read, ask: Some(first), ready: Vec::new().into_iter() }
    }

    /// The next entry; `None`: that was the last.
    pub(crate) async fn next(&mut self) -> Result<Option<T>> {
        loop {
            if let Some(entry) = self.ready.next() {
                return Ok(Some(entry));
            }
            let Some(ask) = self.ask.take() else { return Ok(None) };
            let limit = ask.limit;
            let page = (self.read)(ask).await?;
            self.ask = page.next_cursor.map(|cursor| PageAsk { cursor: Some(cursor), limit });
            self.ready = page.items.into_iter();
        }
    }
}

#[cfg(test)]
mod tests;
