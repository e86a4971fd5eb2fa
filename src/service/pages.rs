//! Reads a paged list, or a log, as one stream of entries.

use std::future::Future;
use std::vec;

use crate::domain::ids::ThreadPk;
use crate::domain::observation::Observation;
use crate::store::{self, ObservationAsk, Page, PageAsk, Store};

/// The entries of a list from one page on. The pages are read as the entries are consumed.
pub(crate) struct Entries<T, R> {
    read: R,
    /// The request for the next page. `None`: the last page was read.
    ask: Option<PageAsk>,
    ready: vec::IntoIter<T>,
}

impl<T, R, F> Entries<T, R>
where
    R: Fn(PageAsk) -> F,
    F: Future<Output = store::Result<Page<T>>>,
{
    /// Begins with the page `first`. Its limit holds for every page.
    pub(crate) fn from(first: PageAsk, read: R) -> Self {
        Self { read, ask: Some(first), ready: Vec::new().into_iter() }
    }

    /// The next entry, or `None` after the last.
    pub(crate) async fn next(&mut self) -> store::Result<Option<T>> {
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

    /// All entries that are left.
    pub(crate) async fn all(mut self) -> store::Result<Vec<T>> {
        let mut all = Vec::new();
        while let Some(entry) = self.next().await? {
            all.push(entry);
        }
        Ok(all)
    }
}

/// The observations of a log as recorded, in order. They are read `ask.limit` at a time, as they are consumed.
pub(crate) struct Observations<'a> {
    store: &'a dyn Store,
    pk: ThreadPk,
    /// The request for the next observations.
    ask: ObservationAsk,
    ready: vec::IntoIter<Observation>,
}

impl<'a> Observations<'a> {
    pub(crate) fn from(store: &'a dyn Store, pk: ThreadPk, ask: ObservationAsk) -> Self {
        Self { store, pk, ask, ready: Vec::new().into_iter() }
    }

    /// The next observation, or `None` after the last.
    pub(crate) async fn next(&mut self) -> store::Result<Option<Observation>> {
        if self.ready.as_slice().is_empty() {
            self.ready = self.store.observations(self.pk, &self.ask).await?.into_iter();
        }
        let next = self.ready.next();
        if let Some(next) = &next {
            self.ask.after = next.seq;
        }
        Ok(next)
    }
}

#[cfg(test)]
mod tests;
