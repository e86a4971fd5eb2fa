//! Problem documents for those who never get as far as a request.

use crate::domain::fault::{Code, Fault};
use crate::http::problem::{MEDIA_TYPE, Scene, document};
use crate::http::trace::TraceId;

/// A whole HTTP response, after which the connection is closed.
pub(super) fn response(fault: &Fault) -> Vec<u8> {
    let trace = TraceId::new();
    let body = document(fault, &Scene { docs: "/docs", instance: "/", trace_id: &trace.0 }).to_string();
    let retry = if fault.code.status() == 503 { "retry-after: 1\r\n" } else { "" };
    let (status, title, length) = (fault.code.status(), fault.code.title(), body.len());
    format!(
        "HTTP/1.1 {status} {title}\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {length}\r\n{retry}x-content-type-options: nosniff\r\n\
         content-security-policy: frame-ancestors 'none'\r\nconnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

/// What to write instead of hyper's own empty refusal, if `bytes` are one. Answers of ours are never empty.
pub(super) fn instead_of(bytes: &[u8]) -> Option<Vec<u8>> {
    let head = std::str::from_utf8(bytes.strip_suffix(b"\r\n\r\n")?).ok()?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?;
    if !head.contains("\r\ncontent-length: 0") {
        return None;
    }
    let fault = match status {
        "400" => Fault::new(Code::Malformed, "This is not a valid HTTP/1.1 request."),
        "414" | "431" => Fault::new(Code::HeadersTooLarge, "Request line and headers are too large; send less."),
        _ => return None,
    };
    Some(response(&fault))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_empty_refusals_are_replaced() {
        let own = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\ndate: x\r\n\r\n";
        let said = String::from_utf8(instead_of(own).unwrap()).unwrap();
        assert!(said.starts_with("HTTP/1.1 431 ") && said.contains("\"code\":\"headers_too_large\""), "{said}");
        assert!(instead_of(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 7\r\n\r\n").is_none());
        assert!(instead_of(b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n").is_none());
        assert!(instead_of(b"data: {}\n\n").is_none());
    }
}
