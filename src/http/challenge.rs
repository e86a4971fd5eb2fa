//! The `WWW-Authenticate` header of a 401 response (RFC 6750), which is the same at every door, and says where tokens
//! come from (RFC 9728).

use axum::http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;

const NO_CREDENTIALS: HeaderValue = HeaderValue::from_static("Bearer");
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
        NO_CREDENTIALS
    }
}

/// Adds the challenge to a 401 response. `metadata` is the URL that says which tokens are accepted.
pub(crate) fn write(response: &mut Response, challenge: HeaderValue, metadata: Option<&str>) {
    if response.status() != StatusCode::UNAUTHORIZED {
        return;
    }
    let with_metadata = metadata.and_then(|metadata| {
        let comma = if challenge == NO_CREDENTIALS { "" } else { "," };
        let challenge = challenge.to_str().ok()?;
        HeaderValue::from_str(&format!("{challenge}{comma} resource_metadata=\"{metadata}\"")).ok()
    });
    response.headers_mut().insert(WWW_AUTHENTICATE, with_metadata.unwrap_or(challenge));
}
