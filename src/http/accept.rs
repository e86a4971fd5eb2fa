//! `Accept`: whether a request is answered with server-sent events or with JSON (RFC 9110, 12.5.1).

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;

use super::header_list::entries;

/// Whether the caller names server-sent events, and gives them no lower weight than JSON.
pub(crate) fn wants_events(headers: &HeaderMap) -> bool {
    let events = weight(headers, "text/event-stream");
    events > 0.0 && events >= weight(headers, "application/json")
}

/// The weight of a media type: 0 if it is not named itself, 1 if its `q` is absent or invalid.
fn weight(headers: &HeaderMap, media_type: &str) -> f32 {
    let weights = entries(headers, ACCEPT).filter_map(|entry| {
        let mut parts = entry.split(';').map(str::trim);
        let is_named = parts.next()?.eq_ignore_ascii_case(media_type);
        let mut weights = parts.filter_map(|part| {
            let (name, value) = part.split_once('=')?;
            name.eq_ignore_ascii_case("q").then(|| value.parse::<f32>().ok()).flatten()
        });
        let weight = weights.find(|weight| (0.0..=1.0).contains(weight)).unwrap_or(1.0);
        is_named.then_some(weight)
    });
    weights.fold(0.0, f32::max)
}

#[cfg(test)]
mod tests;
