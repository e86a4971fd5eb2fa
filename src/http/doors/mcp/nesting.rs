//! Limits how deep agents call one another. The depth is passed from call to call in `tracestate`. So an agent that is
//! its own tool, directly or through others, is stopped, whichever servers and replicas are between.

use serde_json::{Map, Value};

use crate::http::trace::TraceId;

/// The member of `tracestate` that holds the depth.
const MEMBER: &str = "pes=";
/// The maximum depth of nested calls.
const MAX_DEPTH: u32 = 3;
/// The maximum length of a `tracestate` that is passed on (W3C Trace Context, 3.3.1.5).
const MAX_TRACESTATE_BYTES: usize = 512;

/// The trace that a call names in its `_meta`, else the trace of its request.
pub(super) fn trace_of_call(params: &Map<String, Value>, request: &TraceId) -> TraceId {
    let meta = |name: &str| params.get("_meta")?.get(name)?.as_str();
    match meta("traceparent") {
        Some(parent) => TraceId::from_values(Some(parent), meta("tracestate")),
        None => request.clone(),
    }
}

/// The trace for the run that a call starts, one level deeper. `None` if the maximum depth is reached, or if the depth
/// cannot be read.
pub(super) fn nested_trace(mut trace: TraceId) -> Option<TraceId> {
    let state = trace.1.state.take().unwrap_or_default();
    let members = state.split(',').map(str::trim).filter(|member| !member.is_empty());
    let (own, others): (Vec<&str>, Vec<&str>) = members.partition(|member| member.starts_with(MEMBER));
    let depth = own.first().map_or(Some(0), |member| member[MEMBER.len()..].parse().ok())?;
    if depth >= MAX_DEPTH {
        return None;
    }
    let mut state = format!("{MEMBER}{}", depth + 1);
    for other in others {
        if state.len() + 1 + other.len() <= MAX_TRACESTATE_BYTES {
            state = format!("{state},{other}");
        }
    }
    trace.1.state = Some(state);
    Some(trace)
}

#[cfg(test)]
mod tests;
