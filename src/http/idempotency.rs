//! `Idempotency-Key`: a repeated request gets the stored response of the first one and is done only once.

use std::borrow::Cow;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::header::LOCATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::app_state::AppState;
use super::problem::Problem;
use super::reply_preferences::ReplyPreferences;
use crate::domain::fault::{Code, Fault};
use crate::service::once::{self, Answered, Idempotent};

/// The maximum length of a key.
const MAX_KEY_BYTES: usize = 255;

/// A request's key, if it has one, and the scope in which it is unique.
pub(crate) struct IdempotencyKey {
    key: Option<String>,
    scope: String,
}

impl FromRequestParts<AppState> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, Problem> {
        let key = header(&parts.headers)?;
        let path: Vec<Cow<'_, str>> = parts.uri.path().split('/').map(canonical_segment).collect();
        Ok(Self { key, scope: format!("{} {}", parts.method, path.join("/")) })
    }
}

/// A path segment in a canonical spelling: `a%3Ab` becomes `a:b`. A segment that would become another one when decoded,
/// or several, stays unchanged.
fn canonical_segment(segment: &str) -> Cow<'_, str> {
    match percent_decode_str(segment).decode_utf8() {
        Ok(text) if !text.contains(['/', '%']) => text,
        Ok(_) | Err(_) => segment.into(),
    }
}

impl IdempotencyKey {
    /// The key of a WebSocket op, with the scope of the corresponding REST call.
    pub(crate) fn of_op(key: Option<String>, scope: String) -> Result<Self, Fault> {
        if let Some(key) = &key {
            check(key)?;
        }
        Ok(Self { key, scope })
    }

    /// Binds the key to the content of the request.
    pub(crate) fn with(self, fingerprint: String) -> Option<Idempotent> {
        let scope = self.scope;
        self.key.map(|key| Idempotent { key, scope, fingerprint })
    }

    /// The key together with the content of the request, for clients that send one key with all requests of a
    /// conversation: a request with other content is another request.
    pub(crate) fn with_content(self, fingerprint: String) -> Option<Idempotent> {
        let scope = format!("{} {fingerprint}", self.scope);
        Self { scope, ..self }.with(fingerprint)
    }
}

fn header(headers: &HeaderMap) -> Result<Option<String>, Fault> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Fault::new(Code::Malformed, "Send one Idempotency-Key."));
    }
    let key = value.to_str().unwrap_or_default();
    check(key)?;
    Ok(Some(key.to_owned()))
}

fn check(key: &str) -> Result<(), Fault> {
    if key.is_empty() || key.len() > MAX_KEY_BYTES || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        let detail = format!("An Idempotency-Key has 1 to {MAX_KEY_BYTES} visible ASCII characters.");
        return Err(Fault::new(Code::Malformed, detail));
    }
    Ok(())
}

/// A response value, fresh or stored.
pub(crate) struct ReplyValue<T> {
    pub(crate) value: T,
    pub(crate) status: StatusCode,
    pub(crate) is_replay: bool,
}

impl<T> ReplyValue<T> {
    pub(crate) fn headers(&self) -> HeaderMap {
        replay_headers(self.is_replay)
    }
}

/// `Idempotency-Replayed: true` on a stored response.
pub(crate) fn replay_headers(is_replay: bool) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if is_replay {
        headers.insert("idempotency-replayed", HeaderValue::from_static("true"));
    }
    headers
}

impl<T: Serialize> IntoResponse for ReplyValue<T> {
    fn into_response(self) -> Response {
        (self.status, self.headers(), Json(self.value)).into_response()
    }
}

impl<T: Serialize> ReplyValue<T> {
    /// A response with the `Location` of the resource: `place`, below the server's base.
    pub(crate) fn at(self, preferences: &ReplyPreferences, place: &str) -> Response {
        ([(LOCATION, format!("{}{place}", preferences.base))], self).into_response()
    }
}

/// The fresh value, which is sent with `status`, or the stored one of an earlier request.
pub(crate) fn reply_value<T: DeserializeOwned>(
    answered: Answered<T>,
    status: StatusCode,
) -> Result<ReplyValue<T>, Fault> {
    let (status, is_replay) = match &answered {
        Answered::Fresh(_) => (status, false),
        Answered::Replayed(stored) => (StatusCode::from_u16(stored.status).map_err(once::damaged)?, true),
    };
    Ok(ReplyValue { value: answered.into_value()?, status, is_replay })
}

#[cfg(test)]
mod tests {
    use super::canonical_segment;

    #[test]
    fn a_segment_is_decoded_if_it_stays_that_segment() {
        for (segment, is) in
            [("a%3Ab", "a:b"), ("a:b", "a:b"), ("a%2Fb", "a%2Fb"), ("a%252Fb", "a%252Fb"), ("%C3", "%C3"), ("%", "%")]
        {
            assert_eq!(canonical_segment(segment), is);
        }
    }
}
