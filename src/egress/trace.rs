//! The trace headers of an outgoing call.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::domain::trace::CallTrace;

/// Puts `traceparent` and `tracestate` among the headers.
pub(crate) fn insert_trace_headers(headers: &mut HeaderMap, trace: &CallTrace) {
    for (name, value) in trace.headers() {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}
