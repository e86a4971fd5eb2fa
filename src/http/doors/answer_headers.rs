//! What the headers of a door's answer say: the trace of the request, and the thread and the run that it came to.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use crate::http::trace::TraceId;

const THREAD: HeaderName = HeaderName::from_static("x-pes-thread");
const RUN: HeaderName = HeaderName::from_static("x-pes-run");
const REQUEST: HeaderName = HeaderName::from_static("x-request-id");

/// What web pages of other origins may read of them.
pub(in crate::http) const EXPOSED: [HeaderName; 3] = [THREAD, RUN, REQUEST];

pub(super) fn mark(headers: &mut HeaderMap, trace: &TraceId) {
    headers.insert(REQUEST, visible(&trace.0));
}

fn visible(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("a trace is hex digits")
}
