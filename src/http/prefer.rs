//! `Prefer: wait=N` (RFC 7240).

use std::time::Duration;

use axum::http::HeaderMap;

/// The longest that anybody waits.
pub(crate) const LONGEST: u64 = 120;

/// How long the caller would like to wait; more than [`LONGEST`] is that. What cannot be read is no preference.
pub(crate) fn wait(headers: &HeaderMap) -> Option<Duration> {
    let values = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    let mut preferences = values.flat_map(|value| value.split(','));
    preferences.find_map(|preference| {
        let (name, value) = preference.split(';').next()?.split_once('=')?;
        let seconds: u64 = value.trim().trim_matches('"').parse().ok()?;
        name.trim().eq_ignore_ascii_case("wait").then(|| Duration::from_secs(seconds.min(LONGEST)))
    })
}

#[cfg(test)]
mod tests;
