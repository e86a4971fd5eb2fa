//! PostgreSQL's rows, column by column.

use sqlx::postgres::PgRow;
use sqlx::{Row, TypeInfo, ValueRef};
use uuid::Uuid;

use super::fault::error;
use super::nul::unescaped;
use crate::store::Result;
use crate::store::columns::Columns;

impl Columns for PgRow {
    /// Reads integers of any width.
    fn number_or_none(&self, column: &str) -> Result<Option<i64>> {
        let number = match self.try_get_raw(column).map_err(error)?.type_info().name() {
            "INT2" => self.try_get::<Option<i16>, _>(column).map(|number| number.map(i64::from)),
            "INT4" => self.try_get::<Option<i32>, _>(column).map(|number| number.map(i64::from)),
            _ => self.try_get(column),
        };
        number.map_err(error)
    }
    fn flag(&self, column: &str) -> Result<bool> {
        self.try_get(column).map_err(error)
    }
    fn id_or_none(&self, column: &str) -> Result<Option<Uuid>> {
        self.try_get(column).map_err(error)
    }
    fn bytes_or_none(&self, column: &str) -> Result<Option<&[u8]>> {
        self.try_get(column).map_err(error)
    }
    fn text_or_none(&self, column: &str) -> Result<Option<&str>> {
        self.try_get(column).map_err(error)
    }
    fn name_or_none(&self, column: &str) -> Result<Option<String>> {
        let stored: Option<String> = self.try_get(column).map_err(error)?;
        Ok(stored.map(unescaped))
    }
}
