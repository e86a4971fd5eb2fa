//! Rows as lists show them.

use serde::de::DeserializeOwned;

pub(crate) use crate::runtime::rows::read;

use crate::engine::step::Row;

/// The same as [`read`] for lists: one that cannot be read is reported and left out.
pub(crate) fn legible<T: DeserializeOwned>(row: &Row) -> Option<T> {
    read(row).inspect_err(|error| tracing::error!(%error, "a stored row cannot be read and is left out")).ok()
}
