//! SQLite's rows, column by column.

use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use super::fault::unreadable;
use crate::store::columns::Columns;
use crate::store::{Error, Result, text};

impl Columns for SqliteRow {
    fn number_or_none(&self, column: &str) -> Result<Option<i64>> {
        self.try_get(column).map_err(unreadable)
    }
    fn flag(&self, column: &str) -> Result<bool> {
        self.try_get(column).map_err(unreadable)
    }
    fn id_or_none(&self, column: &str) -> Result<Option<Uuid>> {
        let id: Option<uuid::fmt::Simple> = self.try_get(column).map_err(unreadable)?;
        Ok(id.map(Into::into))
    }
    fn bytes_or_none(&self, column: &str) -> Result<Option<&[u8]>> {
        self.try_get(column).map_err(unreadable)
    }
    fn text_or_none(&self, column: &str) -> Result<Option<&str>> {
        self.try_get(column).map_err(unreadable)
    }
    fn name_or_none(&self, column: &str) -> Result<Option<String>> {
        self.try_get(column).map_err(unreadable)
    }
}

/// The rows that a write returns.
impl Columns for rusqlite::Row<'_> {
    fn number_or_none(&self, column: &str) -> Result<Option<i64>> {
        self.get(column).map_err(damaged)
    }
    fn flag(&self, column: &str) -> Result<bool> {
        self.get(column).map_err(damaged)
    }
    fn id_or_none(&self, column: &str) -> Result<Option<Uuid>> {
        let id: Option<String> = self.get(column).map_err(damaged)?;
        id.map(|id| Uuid::try_parse(&id)).transpose().map_err(|why| text::damaged(column, why))
    }
    fn bytes_or_none(&self, column: &str) -> Result<Option<&[u8]>> {
        self.get_ref(column).map_err(damaged)?.as_blob_or_null().map_err(|why| text::damaged(column, why))
    }
    fn text_or_none(&self, column: &str) -> Result<Option<&str>> {
        self.get_ref(column).map_err(damaged)?.as_str_or_null().map_err(|why| text::damaged(column, why))
    }
    fn name_or_none(&self, column: &str) -> Result<Option<String>> {
        self.get(column).map_err(damaged)
    }
}

fn damaged(error: rusqlite::Error) -> Error {
    Error::Damaged(error.to_string())
}
