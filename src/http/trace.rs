//! The trace that a request belongs to: W3C `traceparent` and `tracestate`, or a new one.

use axum::http::HeaderMap;

use crate::domain::request_trace::RequestTrace;
use crate::domain::trace::{TraceOrigin, is_hex, is_trace_id};

/// The maximum length of a `tracestate` that is passed on (W3C Trace Context, 3.3.1.5).
pub(crate) const MAX_TRACESTATE_BYTES: usize = 512;

impl RequestTrace {
    /// The caller's trace, or a new one. An invalid header counts as absent (W3C Trace Context, 3.2).
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name)?.to_str().ok();
        let states: Vec<&str> = headers.get_all("tracestate").iter().filter_map(|value| value.to_str().ok()).collect();
        Self::from_values(text("traceparent"), Some(&states.join(",")))
    }

    /// The trace of these `traceparent` and `tracestate` values, from headers or from the members of a socket op.
    pub(crate) fn from_values(parent: Option<&str>, state: Option<&str>) -> Self {
        let Some(mut trace) = parent.and_then(parse) else { return Self::new() };
        trace.origin.state = state.map(str::trim).filter(|state| is_state(state)).map(str::to_owned);
        trace
    }

    /// A trace that begins here.
    pub(crate) fn new() -> Self {
        Self { id: uuid::Uuid::new_v4().simple().to_string(), origin: TraceOrigin::default() }
    }
}

fn is_state(state: &str) -> bool {
    (1..=MAX_TRACESTATE_BYTES).contains(&state.len())
        && state.contains('=')
        && state.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

fn parse(header: &str) -> Option<RequestTrace> {
    let parts: Vec<&str> = header.trim().split('-').collect();
    let [version, id, parent, flags, ..] = parts[..] else { return None };
    let known = version == "00" && parts.len() == 4 || is_hex(version, 2) && version > "00" && version != "ff";
    let is_span = is_hex(parent, 16) && parent.bytes().any(|byte| byte != b'0');
    let origin =
        || TraceOrigin { parent: Some(parent.to_owned()), flags: Some(flags.to_owned()), ..TraceOrigin::default() };
    (known && is_trace_id(id) && is_span && is_hex(flags, 2))
        .then(|| RequestTrace { id: id.to_owned(), origin: origin() })
}

#[cfg(test)]
mod tests;
