//! Error responses: RFC 9457 `application/problem+json`, the same for every API.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use crate::domain::fault::{Code, Fault};

pub(crate) const MEDIA_TYPE: &str = "application/problem+json";

/// A fault on its way to the client. It is carried in the extensions of a response without a body. `envelope::respond`
/// takes it out of them and lets `complete`, or the door's `refuse`, write the body.
#[derive(Clone, Debug)]
pub(crate) struct Problem(pub(crate) Fault);

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        Self(fault)
    }
}

pub(crate) type HttpResult<T> = Result<T, Problem>;

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = status(self.0.code).into_response();
        response.extensions_mut().insert(self);
        response
    }
}

fn status(code: Code) -> StatusCode {
    StatusCode::from_u16(code.status()).expect("the list of codes holds valid statuses only")
}

/// The context of a problem.
pub(crate) struct ProblemContext<'a> {
    /// The URL of the documentation that a problem's `type` points into.
    pub(crate) docs: &'a str,
    pub(crate) instance: &'a str,
    pub(crate) trace_id: &'a str,
}

/// The problem document.
pub(crate) fn document(fault: &Fault, context: &ProblemContext<'_>) -> Value {
    let code = fault.code;
    let mut members = Map::new();
    for (name, value) in [
        ("type", json!(format!("{}#{}", context.docs, code.as_str()))),
        ("title", json!(code.title())),
        ("status", json!(code.status())),
        ("detail", json!(fault.detail)),
        ("instance", json!(context.instance)),
        ("code", json!(code)),
        ("traceId", json!(context.trace_id)),
        ("retryable", json!(code.retryable())),
    ] {
        members.insert(name.to_owned(), value);
    }
    if !fault.errors.is_empty() {
        members.insert("errors".to_owned(), json!(fault.errors));
    }
    for (name, value) in fault.extra.iter().flat_map(|extra| extra.iter()) {
        members.entry(name.clone()).or_insert_with(|| value.clone());
    }
    Value::Object(members)
}

/// `bare` with the document as its body. Keeps the headers of `bare` (`Allow`, CORS).
pub(crate) fn complete(fault: &Fault, context: &ProblemContext<'_>, bare: Response) -> Response {
    let (mut parts, _) = bare.into_parts();
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    set_retry_after(&mut parts.headers, status(fault.code), fault.retry_after_ms);
    Response::from_parts(parts, Body::from(document(fault, context).to_string()))
}

/// Sets `Retry-After`, which clients obey without reading the body.
pub(super) fn set_retry_after(headers: &mut HeaderMap, status: StatusCode, retry_after_ms: Option<i64>) {
    if let Some(seconds) = retry_after(status, retry_after_ms) {
        headers.insert(RETRY_AFTER, seconds.into());
    }
}

/// Seconds, rounded up. Every 429 and 503 has one.
fn retry_after(status: StatusCode, ms: Option<i64>) -> Option<u64> {
    let retry_after = ms.map(|ms| u64::try_from(ms).unwrap_or(0).div_ceil(1000).max(1));
    retry_after.or_else(|| matches!(status.as_u16(), 429 | 503).then_some(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_members_stand_beside_and_never_instead() {
        let fault = Fault::new(Code::AlreadyResolved, "Ana approved it.").with("decidedBy", "ana").with("status", 200);
        let context = ProblemContext { docs: "/docs", instance: "/threads/t/resume", trace_id: "abc" };
        let document = document(&fault, &context);
        assert_eq!(document["decidedBy"], "ana");
        assert_eq!(document["status"], 409);
        assert_eq!(document["type"], "/docs#already_resolved");
    }

    #[test]
    fn retry_after_is_given_where_a_retry_helps() {
        assert_eq!(retry_after(status(Code::Draining), None), Some(1));
        assert_eq!(retry_after(status(Code::Draining), Some(1001)), Some(2));
        assert_eq!(retry_after(status(Code::NotFound), None), None);
    }
}
