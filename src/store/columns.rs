//! A row as a database returns it: the files of the tables read their types from it, whichever database it is.

use uuid::Uuid;

use super::{Result, text};

/// A row that was read, by the names of its columns. `Damaged` where a column does not hold what it should.
pub(crate) trait Columns {
    fn number_or_none(&self, column: &str) -> Result<Option<i64>>;
    fn flag(&self, column: &str) -> Result<bool>;
    fn id_or_none(&self, column: &str) -> Result<Option<Uuid>>;
    fn bytes_or_none(&self, column: &str) -> Result<Option<&[u8]>>;
    /// A text as it is stored: a body, or a word that this server chose.
    fn text_or_none(&self, column: &str) -> Result<Option<&str>>;
    /// An id or a name that a client or a model chose.
    fn name_or_none(&self, column: &str) -> Result<Option<String>>;

    fn number(&self, column: &str) -> Result<i64> {
        self.number_or_none(column)?.ok_or_else(|| absent(column))
    }
    fn text(&self, column: &str) -> Result<&str> {
        self.text_or_none(column)?.ok_or_else(|| absent(column))
    }
    fn name(&self, column: &str) -> Result<String> {
        self.name_or_none(column)?.ok_or_else(|| absent(column))
    }
    /// A number that is never negative.
    fn count(&self, column: &str) -> Result<u64> {
        self.number(column).map(i64::unsigned_abs)
    }
}

fn absent(column: &str) -> super::Error {
    text::damaged(column, "there is no value")
}
