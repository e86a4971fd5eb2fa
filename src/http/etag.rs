//! Versions as entity tags: `"7"`.

use axum::Json;
use axum::http::header::{ETAG, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::header_list::entries;
use crate::service::if_match::IfMatch;

fn of(version: i64) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{version}\"")).expect("digits are visible ASCII")
}

/// A JSON response with its version as the `ETag`.
pub(crate) struct Tagged<T> {
    pub(crate) value: T,
    pub(crate) version: i64,
}

impl<T: Serialize> IntoResponse for Tagged<T> {
    fn into_response(self) -> Response {
        ([(ETAG, of(self.version))], Json(self.value)).into_response()
    }
}

/// Whether `If-None-Match` names this tag.
pub(crate) fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    entries(headers, IF_NONE_MATCH)
        .map(|entry| entry.trim_start_matches("W/"))
        .any(|entry| entry == "*" || entry == tag)
}

impl IfMatch {
    /// Reads the precondition from the headers.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        if !headers.contains_key(IF_MATCH) {
            return IfMatch::Absent;
        }
        let tags: Vec<&str> = entries(headers, IF_MATCH).collect();
        if tags.contains(&"*") {
            return IfMatch::Any;
        }
        let version = |tag: &&str| tag.strip_prefix('"')?.strip_suffix('"')?.parse().ok();
        IfMatch::Versions(tags.iter().filter_map(version).collect())
    }
}

#[cfg(test)]
mod tests;
