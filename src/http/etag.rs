//! Versions as entity tags: `"7"`.

use axum::Json;
use axum::http::header::{ETAG, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::header_list::entries;
use crate::service::if_match::IfMatch;

/// What Apache's `mod_deflate` and `mod_brotli`, and Caddy's `encode`, append to the tag of an answer that they compress.
const ENCODINGS: [&str; 3] = ["-gzip", "-br", "-zstd"];

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
        IfMatch::Versions(tags.into_iter().filter_map(version).collect())
    }
}

/// The version that a tag names. A proxy that compresses an answer changes its tag: nginx and HAProxy make it a weak one
/// (`W/"7"`), Apache and newer versions of Caddy append the name of the encoding (`"7-gzip"`). The version in it is exact all
/// the same, and without it no change could be made through such a proxy.
fn version(tag: &str) -> Option<i64> {
    let opaque = tag.strip_prefix("W/").unwrap_or(tag).strip_prefix('"')?.strip_suffix('"')?;
    let version = ENCODINGS.iter().find_map(|encoding| opaque.strip_suffix(encoding)).unwrap_or(opaque);
    version.parse().ok()
}

#[cfg(test)]
mod tests;
