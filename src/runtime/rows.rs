//! Rows whose bodies are documented, read back as what they are.

use serde::de::DeserializeOwned;

use crate::engine::step::Row;
use crate::store;

/// What a stored row says. One that cannot be read is damaged.
pub(crate) fn read<T: DeserializeOwned>(row: &Row) -> store::Result<T> {
    serde_json::from_str(&row.body)
        .map_err(|error| store::Error::Damaged(format!("{:?} {}: {error}", row.kind, row.id)))
}

/// The same as [`read`] for lists: one that cannot be read is reported and left out.
pub(crate) fn legible<T: DeserializeOwned>(row: &Row) -> Option<T> {
    read(row).inspect_err(|error| tracing::error!(%error, "a stored row cannot be read and is left out")).ok()
}
