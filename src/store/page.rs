//! Pages of a list: the request, the response, and the cursor between two pages, which is opaque to the client that passes
//! it back.

use super::columns::Columns;
use super::{Error, Result};
use crate::domain::hex;

/// Keyset paging: everything strictly after `cursor` in the list's order. By default the first 100.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageAsk {
    pub cursor: Option<String>,
    /// At least 1: a page without room looks like the end of the list.
    pub limit: u32,
}

impl Default for PageAsk {
    fn default() -> Self {
        Self::first(100)
    }
}

/// The order of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Ascending,
    Descending,
}

/// How many bytes the rows of a page have together. A larger row is a page of its own.
pub const MAX_PAGE_BYTES: u64 = 4 << 20;

#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub next_cursor: Option<String>,
    /// The position of each item, if the items are rows: the page can be cut after any of them.
    places: Vec<Cursor>,
}

impl<T> Page<T> {
    /// A page that is not cut any more.
    pub fn new(items: Vec<T>, next_cursor: Option<String>) -> Self {
        Self { items, next_cursor, places: Vec::new() }
    }

    pub fn map<U>(self, mut change: impl FnMut(T) -> U) -> Page<U> {
        self.filter_map(|item| Some(change(item)))
    }

    pub(crate) fn try_map<U>(self, change: impl FnMut(T) -> Result<U>) -> Result<Page<U>> {
        let items = self.items.into_iter().map(change).collect::<Result<_>>()?;
        Ok(Page { items, next_cursor: self.next_cursor, places: self.places })
    }

    /// The page without the items for which `change` returns `None`.
    pub(crate) fn filter_map<U>(self, mut change: impl FnMut(T) -> Option<U>) -> Page<U> {
        let mut kept = Page::new(Vec::with_capacity(self.items.len()), self.next_cursor);
        let mut places = self.places.into_iter();
        for item in self.items {
            let place = places.next();
            if let Some(item) = change(item) {
                kept.items.push(item);
                kept.places.extend(place);
            }
        }
        kept
    }

    /// The page with its first `most` items only. The next page begins after them.
    pub(crate) fn cut(mut self, most: usize) -> Self {
        if let Some(last) = self.places.get(most.wrapping_sub(1)).filter(|_| most < self.items.len()) {
            self.next_cursor = Some(last.write());
            self.items.truncate(most);
            self.places.truncate(most);
        }
        self
    }
}

/// How many of the first items with these sizes have at most `most` bytes together, but at least one if there is any.
pub(crate) fn fitting(sizes: impl Iterator<Item = u64>, most: u64) -> usize {
    let mut bytes = 0;
    let fits = |(at, size): &(usize, u64)| {
        bytes += size;
        *at == 0 || bytes <= most
    };
    sizes.enumerate().take_while(fits).count()
}

/// The position of the last item of a page: its sort number, then its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub at: i64,
    pub id: String,
}

impl Cursor {
    pub fn new(at: i64, id: impl Into<String>) -> Self {
        Self { at, id: id.into() }
    }

    /// The cursor after which the requested page begins; `Refused` for a text that this server did not write.
    pub fn of(ask: &PageAsk) -> Result<Option<Self>> {
        let Some(text) = &ask.cursor else { return Ok(None) };
        Self::read(text)
            .map(Some)
            .ok_or_else(|| Error::Refused("The cursor must be the one of the page before.".to_owned()))
    }

    pub(super) fn write(&self) -> String {
        hex::of(format!("{}~{}", self.at, self.id).as_bytes())
    }

    fn read(text: &str) -> Option<Self> {
        let plain = String::from_utf8(hex::read(text)?).ok()?;
        let (at, id) = plain.split_once('~')?;
        Some(Self::new(at.parse().ok()?, id))
    }
}

impl PageAsk {
    /// The first page.
    pub fn first(limit: u32) -> Self {
        Self { cursor: None, limit }
    }

    /// Whether it has no cursor, or one that this server wrote.
    pub(crate) fn is_cursor_readable(&self) -> bool {
        Cursor::of(self).is_ok()
    }

    /// How many rows to read: one more than the page holds, to know whether there is another page.
    pub(crate) fn rows(&self) -> i64 {
        i64::from(self.limit) + 1
    }

    /// The number before which a page in descending order begins.
    pub(crate) fn before(&self) -> Result<i64> {
        Ok(Cursor::of(self)?.map_or(i64::MAX, |cursor| cursor.at))
    }

    /// The number after which a page in ascending order begins.
    pub(crate) fn after(&self) -> Result<i64> {
        Ok(Cursor::of(self)?.map_or(i64::MIN, |cursor| cursor.at))
    }

    /// The rows with a greater `ord`.
    pub fn beyond(ord: i64, limit: u32) -> Self {
        Self { cursor: Some(Cursor::new(ord + 1, "").write()), limit }
    }
}

/// Makes a page of `rows`, of which [`PageAsk::rows`] were read.
pub(crate) fn page_of<R: Columns, T>(
    rows: &[R],
    ask: &PageAsk,
    read: impl Fn(&R) -> Result<T>,
    place: impl Fn(&R, &T) -> Result<Cursor>,
) -> Result<Page<T>> {
    let shown = &rows[..rows.len().min(ask.limit as usize)];
    let items = shown.iter().map(read).collect::<Result<Vec<T>>>()?;
    let places = shown.iter().zip(&items).map(|(row, item)| place(row, item)).collect::<Result<Vec<_>>>()?;
    let next_cursor = places.last().filter(|_| rows.len() > shown.len()).map(Cursor::write);
    Ok(Page { items, next_cursor, places })
}

/// The same request for only as many rows as a page reads. `sizes` are the rows of the page, each with its `bytes`.
pub(crate) fn within_bytes(ask: &PageAsk, sizes: &[impl Columns]) -> Result<PageAsk> {
    let sizes = sizes.iter().take(ask.limit as usize).map(|size| size.count("bytes")).collect::<Result<Vec<_>>>()?;
    let most = fitting(sizes.iter().copied(), MAX_PAGE_BYTES);
    let limit = if most < sizes.len() { most as u32 } else { ask.limit };
    Ok(PageAsk { limit, ..ask.clone() })
}

impl<T> Page<T> {
    /// If the page has no cursor, continues it after the last scanned row.
    pub(crate) fn or_continue_after(self, looked_at: Option<Cursor>) -> Self {
        let next_cursor = self.next_cursor.or_else(|| looked_at.map(|last| last.write()));
        Self { next_cursor, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Number(i64);

    impl Columns for Number {
        fn number_or_none(&self, _: &str) -> Result<Option<i64>> {
            Ok(Some(self.0))
        }
        fn flag(&self, _: &str) -> Result<bool> {
            Ok(false)
        }
        fn id_or_none(&self, _: &str) -> Result<Option<uuid::Uuid>> {
            Ok(None)
        }
        fn bytes_or_none(&self, _: &str) -> Result<Option<&[u8]>> {
            Ok(None)
        }
        fn text_or_none(&self, _: &str) -> Result<Option<&str>> {
            Ok(None)
        }
        fn name_or_none(&self, _: &str) -> Result<Option<String>> {
            Ok(None)
        }
    }

    fn of(cursor: &str) -> Result<Option<Cursor>> {
        Cursor::of(&PageAsk { cursor: Some(cursor.to_owned()), limit: 1 })
    }

    #[test]
    fn only_a_page_with_more_behind_it_has_a_cursor_and_only_ours_are_taken() {
        let ask = PageAsk { cursor: None, limit: 2 };
        let page = |numbers: &[Number]| {
            page_of(numbers, &ask, |row| row.number("n"), |_, n| Ok(Cursor::new(*n, "run_é~1"))).unwrap()
        };
        assert_eq!(page(&[Number(1), Number(2)]).next_cursor, None);
        let cut = page(&[Number(1), Number(-2), Number(3)]);
        assert_eq!(cut.items, [1, -2]);
        assert_eq!(of(&cut.next_cursor.unwrap()).unwrap(), Some(Cursor::new(-2, "run_é~1")));
        for text in ["", "zz", "abc", "é9", "00", "7e", "+1+2", "ffff"] {
            assert!(matches!(of(text), Err(Error::Refused(_))), "{text}");
        }
    }
}
