//! Page cursors: a position in a list, opaque to whoever passes it back.

use super::{Error, Page, PageAsk, Result};

/// The place of the last item of a page: its sort number, then its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub at: i64,
    pub id: String,
}

impl Cursor {
    pub fn new(at: i64, id: impl Into<String>) -> Self {
        Self { at, id: id.into() }
    }

    /// Where the asked page begins; `Refused` for a text that no page of ours ended with.
    pub fn of(ask: &PageAsk) -> Result<Option<Self>> {
        let Some(text) = &ask.cursor else { return Ok(None) };
        Self::read(text).map(Some).ok_or_else(|| Error::Refused("this cursor is not one of ours".to_owned()))
    }

    fn write(&self) -> String {
        format!("{}~{}", self.at, self.id).bytes().map(|byte| format!("{byte:02x}")).collect()
    }

    fn read(text: &str) -> Option<Self> {
        if !text.is_ascii() || !text.len().is_multiple_of(2) {
            return None;
        }
        let bytes = (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16));
        let plain = String::from_utf8(bytes.collect::<std::result::Result<_, _>>().ok()?).ok()?;
        let (at, id) = plain.split_once('~')?;
        Some(Self::new(at.parse().ok()?, id))
    }
}

impl PageAsk {
    /// The rows with a greater `ord`.
    pub fn beyond(ord: i64, limit: u32) -> Self {
        Self { cursor: Some(Cursor::new(ord + 1, "").write()), limit }
    }
}

/// Makes a page of `found`, which was read with one item more than asked for.
pub(crate) fn page<T>(mut found: Vec<T>, limit: u32, cursor: impl Fn(&T) -> Cursor) -> Page<T> {
    let limit = limit as usize;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let next_cursor = if has_more { found.last().map(|last| cursor(last).write()) } else { None };
    Page { items: found, next_cursor }
}

impl<T> Page<T> {
    /// Goes on behind the last item that was looked at, unless it does already behind the last one found.
    pub(crate) fn or_behind(self, looked_at: Option<Cursor>) -> Self {
        let next_cursor = self.next_cursor.or_else(|| looked_at.map(|last| last.write()));
        Self { next_cursor, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(cursor: &str) -> Result<Option<Cursor>> {
        Cursor::of(&PageAsk { cursor: Some(cursor.to_owned()), limit: 1 })
    }

    #[test]
    fn only_a_page_with_more_behind_it_has_a_cursor_and_only_ours_are_taken() {
        assert_eq!(page(vec![1, 2], 2, |n| Cursor::new(*n, "")).next_cursor, None);
        let cut = page(vec![1, -2, 3], 2, |n| Cursor::new(*n, "run_é~1"));
        assert_eq!(cut.items, [1, -2]);
        assert_eq!(of(&cut.next_cursor.unwrap()).unwrap(), Some(Cursor::new(-2, "run_é~1")));
        for text in ["", "zz", "abc", "é9", "00", "7e", "+1+2", "ffff"] {
            assert!(matches!(of(text), Err(Error::Refused(_))), "{text}");
        }
    }
}
