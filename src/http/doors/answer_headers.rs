//! What the headers of a door's answer say: the trace of the request, and the thread and the run that it came to.

use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;

use crate::domain::ids::{RunId, ThreadId};
use crate::http::trace::TraceId;

const THREAD: HeaderName = HeaderName::from_static("x-pes-thread");
const RUN: HeaderName = HeaderName::from_static("x-pes-run");
const REQUEST: HeaderName = HeaderName::from_static("x-request-id");

/// What web pages of other origins may read of them.
pub(in crate::http) const EXPOSED: [HeaderName; 3] = [THREAD, RUN, REQUEST];

pub(super) fn mark(headers: &mut HeaderMap, trace: &TraceId) {
    headers.insert(REQUEST, visible(&trace.0));
}

/// The answer is about this run.
pub(super) fn name_run(headers: &mut HeaderMap, thread: &ThreadId, run: &RunId) {
    headers.insert(THREAD, visible(thread.as_str()));
    headers.insert(RUN, visible(run.as_str()));
}

/// Headers that were there before the answer had its body stay.
pub(super) fn keep(response: &mut Response, before: &HeaderMap) {
    for (name, value) in before {
        if *name != CONTENT_TYPE && *name != CONTENT_LENGTH && !response.headers().contains_key(name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
}

fn visible(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("ids of traces, threads and runs are visible ASCII")
}
