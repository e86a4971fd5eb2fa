//! Problem documents for connections that never get as far as a request.

use crate::domain::fault::Fault;
use crate::domain::request_trace::RequestTrace;
use crate::http::problem::{MEDIA_TYPE, ProblemContext, document};

/// A complete HTTP response, after which the connection is closed.
pub(super) fn response(fault: &Fault) -> Vec<u8> {
    let trace = RequestTrace::new();
    let body = document(fault, &ProblemContext { docs: "/docs", instance: "/", trace_id: &trace.id }).to_string();
    let retry = if fault.code.status() == 503 { "retry-after: 1\r\n" } else { "" };
    let (status, title, length) = (fault.code.status(), fault.code.title(), body.len());
    format!(
        "HTTP/1.1 {status} {title}\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {length}\r\n{retry}x-content-type-options: nosniff\r\n\
         content-security-policy: frame-ancestors 'none'\r\nconnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}
