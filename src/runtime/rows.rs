//! Parsing the bodies of stored rows.

use serde::de::DeserializeOwned;

use crate::engine::step::Row;
use crate::store;

/// Parses a stored row. The error is [`store::Error::Damaged`].
pub(crate) fn read<T: DeserializeOwned>(row: &Row) -> store::Result<T> {
    serde_json::from_str(&row.body)
        .map_err(|error| store::Error::Damaged(format!("{:?} {}: {error}", row.kind, row.id)))
}

/// Like [`read`], for lists: an unreadable row is logged and left out.
pub(crate) fn legible<T: DeserializeOwned>(row: &Row) -> Option<T> {
    read(row).inspect_err(|error| tracing::error!(%error, "a stored row cannot be read and is left out")).ok()
}
