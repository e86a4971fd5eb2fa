//! The headers that every door sets on its responses: the id of the request's trace, and the thread and the run that
//! the response is about.

use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;

use crate::domain::ids::{RunId, ThreadId};
use crate::domain::request_trace::RequestTrace;

const THREAD: HeaderName = HeaderName::from_static("x-pes-thread");
const RUN: HeaderName = HeaderName::from_static("x-pes-run");
const REQUEST: HeaderName = HeaderName::from_static("x-request-id");

/// The headers that web pages of other origins may read.
pub(in crate::http) const EXPOSED: [HeaderName; 3] = [THREAD, RUN, REQUEST];

pub(super) fn set_request_id(headers: &mut HeaderMap, trace: &RequestTrace) {
    headers.insert(REQUEST, visible(&trace.id));
}

/// Names the thread and the run that the response is about.
pub(super) fn set_run(headers: &mut HeaderMap, thread: &ThreadId, run: &RunId) {
    headers.insert(THREAD, visible(thread.as_str()));
    headers.insert(RUN, visible(run.as_str()));
}

/// Copies headers that were set before the response had its body. Headers that the response has already win.
pub(super) fn keep_existing(response: &mut Response, before: &HeaderMap) {
    for (name, value) in before {
        if *name != CONTENT_TYPE && *name != CONTENT_LENGTH && !response.headers().contains_key(name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
}

fn visible(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("ids of traces, threads and runs are visible ASCII")
}
