//! Rows whose bodies are documented, read back as what they are.

use serde::de::DeserializeOwned;

use crate::engine::step::Row;
use crate::store;

/// What a stored row says. One that cannot be read is damaged.
pub(crate) fn read<T: DeserializeOwned>(row: &Row) -> store::Result<T> {
    serde_json::from_str(&row.body)
        .map_err(|error| store::Error::Damaged(format!("{:?} {}: {error}", row.kind, row.id)))
}
