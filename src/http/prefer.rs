//! `Prefer: wait=N` (RFC 7240).

use std::time::Duration;

use axum::http::HeaderMap;

use super::header_list::entries;

/// The longest wait in seconds.
pub(crate) const MAX_WAIT_SECS: u64 = 120;

/// How long the caller wants to wait, at most [`MAX_WAIT_SECS`]. An invalid value counts as no preference.
pub(crate) fn wait(headers: &HeaderMap) -> Option<Duration> {
    entries(headers, "prefer").find_map(|preference| {
        let (name, value) = preference.split(';').next()?.split_once('=')?;
        let seconds: u64 = value.trim().trim_matches('"').parse().ok()?;
        name.trim().eq_ignore_ascii_case("wait").then(|| Duration::from_secs(seconds.min(MAX_WAIT_SECS)))
    })
}

#[cfg(test)]
mod tests;
