//! Headers that hold a list.

use axum::http::HeaderMap;
use axum::http::header::AsHeaderName;

/// The comma-separated entries of all headers of this name, without the white space around them.
pub(crate) fn entries(headers: &HeaderMap, name: impl AsHeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}
