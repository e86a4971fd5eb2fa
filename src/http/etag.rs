//! Versions as entity tags: `"7"`.

use axum::http::header::IF_MATCH;
use axum::http::{HeaderMap, HeaderValue};

use crate::service::if_match::IfMatch;

pub(crate) fn of(version: i64) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{version}\"")).expect("digits are visible ASCII")
}

impl IfMatch {
    /// Reads the precondition from the headers.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(IF_MATCH).iter().peekable();
        if values.peek().is_none() {
            return IfMatch::Absent;
        }
        let text: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
        let tags: Vec<&str> = text.iter().flat_map(|value| value.split(',')).map(str::trim).collect();
        if tags.contains(&"*") {
            return IfMatch::Any;
        }
        let version = |tag: &&str| tag.strip_prefix('"')?.strip_suffix('"')?.parse().ok();
        IfMatch::Versions(tags.iter().filter_map(version).collect())
    }
}

#[cfg(test)]
mod tests;
