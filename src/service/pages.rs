//! Pages of lists: their bound in bytes, and a paged list, or a log, read as one stream of entries.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::vec;

use serde_json::Value;

use crate::domain::ids::ThreadPk;
use crate::domain::observation::Observation;
use crate::domain::payload;
use crate::engine::step::RowKind;
use crate::store::{self, ObservationAsk, Page, PageAsk, Reads, RowKey};

/// The first entries of a page: as many as have [`MAX_PAGE_BYTES`](store::MAX_PAGE_BYTES) together in the rows that are read
/// to show them, but at least one. The next page begins after them. `parts` are these rows. A row is read once, and counts
/// once; a payload is copied into every entry.
pub(crate) async fn within_bytes<T>(
    store: &dyn Reads,
    page: Page<T>,
    parts: impl Fn(&T) -> Vec<RowKey>,
) -> store::Result<Page<T>> {
    let sizes = sizes(store, &page.items, parts).await?;
    Ok(page.cut(store::fitting(sizes.into_iter(), store::MAX_PAGE_BYTES)))
}

/// How many bytes these entries have in the rows that are read to show them. See [`within_bytes`].
pub(crate) async fn sizes<T>(
    store: &dyn Reads,
    entries: &[T],
    parts: impl Fn(&T) -> Vec<RowKey>,
) -> store::Result<Vec<u64>> {
    let parts: Vec<Vec<RowKey>> = entries.iter().map(parts).collect();
    let wanted: Vec<RowKey> = parts.iter().flatten().cloned().collect::<HashSet<_>>().into_iter().collect();
    if entries.len() < 2 || wanted.is_empty() {
        return Ok(vec![0; entries.len()]);
    }
    let bytes: HashMap<RowKey, u64> = store.row_bytes(&wanted).await?.into_iter().collect();
    let (mut counted, mut sizes) = (HashSet::new(), Vec::with_capacity(entries.len()));
    for parts in &parts {
        let mut size = 0;
        for part in parts {
            if part.1 == RowKind::Payload || counted.insert(part) {
                size += bytes.get(part).copied().unwrap_or_default();
            }
        }
        sizes.push(size);
    }
    Ok(sizes)
}

/// The payloads that these values of a thread refer to.
pub(crate) fn payloads_of<'v>(pk: ThreadPk, values: impl IntoIterator<Item = &'v Value>) -> Vec<RowKey> {
    let mut ids = Vec::new();
    values.into_iter().for_each(|value| payload::references(value, &mut ids));
    ids.into_iter().map(|id| (pk, RowKind::Payload, id.to_string())).collect()
}

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
    store: &'a dyn Reads,
    pk: ThreadPk,
    /// The request for the next observations.
    ask: ObservationAsk,
    ready: vec::IntoIter<Observation>,
}

impl<'a> Observations<'a> {
    pub(crate) fn from(store: &'a dyn Reads, pk: ThreadPk, ask: ObservationAsk) -> Self {
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
