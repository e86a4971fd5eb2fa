//! Pages of a list: the request, the response, and the cursor between two pages, which is opaque to the client that passes
//! it back.

use super::columns::Columns;
use super::{Error, Result};
use crate::domain::hex;

/// Keyset paging: everything strictly after `cursor` in the list's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageAsk {
    pub cursor: Option<String>,
    pub limit: u32,
}

/// The order of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Ascending,
    Descending,
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
    let next_cursor = match (shown.last(), items.last()) {
        (Some(row), Some(item)) if rows.len() > shown.len() => Some(place(row, item)?.write()),
        (_, _) => None,
    };
    Ok(Page { items, next_cursor })
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
