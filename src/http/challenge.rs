//! What whoever was answered 401 is told to show: the `WWW-Authenticate` of RFC 6750, the same at every door, and where
//! tokens come from (RFC 9728).

use axum::http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;

const NONE_SHOWN: HeaderValue = HeaderValue::from_static("Bearer");
const INVALID: HeaderValue = HeaderValue::from_static("Bearer error=\"invalid_token\"");

/// The challenge for a request with these headers.
pub(crate) fn of(asked: &HeaderMap) -> HeaderValue {
    let values = |name| asked.get_all(name).iter().map(HeaderValue::as_bytes);
    let is_bearer = |value: &[u8]| value.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer "));
    let is_offered =
        |value: &[u8]| value.split(|byte| *byte == b',').any(|one| one.trim_ascii().starts_with(b"bearer."));
    if values(AUTHORIZATION).any(is_bearer) || values(SEC_WEBSOCKET_PROTOCOL).any(is_offered) {
        INVALID
    } else {
        NONE_SHOWN
    }
}

/// Puts the challenge on a refusal that asks for a key or a token; `metadata` is where it stands which tokens.
pub(crate) fn write(response: &mut Response, challenge: HeaderValue, metadata: Option<&str>) {
    if response.status() != StatusCode::UNAUTHORIZED {
        return;
    }
    let told = metadata.and_then(|metadata| {
        let comma = if challenge == NONE_SHOWN { "" } else { "," };
        let challenge = challenge.to_str().ok()?;
        HeaderValue::from_str(&format!("{challenge}{comma} resource_metadata=\"{metadata}\"")).ok()
    });
    response.headers_mut().insert(WWW_AUTHENTICATE, told.unwrap_or(challenge));
}
