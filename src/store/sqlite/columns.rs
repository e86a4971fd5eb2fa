//! SQLite's rows, column by column.

use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use super::fault::unreadable;
use crate::store::Result;
use crate::store::columns::Columns;

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
    fn text_or_none(&self, column: &str) -> Result<Option<&str>> {
        self.try_get(column).map_err(unreadable)
    }
    fn name_or_none(&self, column: &str) -> Result<Option<String>> {
        self.try_get(column).map_err(unreadable)
    }
}
