//! Limits how deep agents call one another. The depth is passed from call to call in `tracestate`, whichever door each
//! call uses. So an agent that calls itself, directly or through others, is stopped, whichever servers and replicas are
//! between.

use serde_json::{Map, Value};

use crate::domain::request_trace::RequestTrace;
use crate::http::trace::MAX_TRACESTATE_BYTES;

/// The member of `tracestate` that holds the depth.
const MEMBER: &str = "pes=";
/// The maximum depth of nested calls.
const MAX_DEPTH: u32 = 5;

/// Why a call is refused that would be too deep.
pub(super) const TOO_DEEP: &str =
    "Agents have called one another too often inside one another; answer without another call.";

/// The trace that an MCP call names in its `_meta`, else the trace of its request. Its depth is the greater one of both.
pub(super) fn trace_of_call(params: &Map<String, Value>, request: &RequestTrace) -> RequestTrace {
    let meta = |name: &str| params.get("_meta")?.get(name)?.as_str();
    let Some(parent) = meta("traceparent") else { return request.clone() };
    let state_of_request = request.origin.state.as_deref();
    let mut trace = RequestTrace::from_values(Some(parent), meta("tracestate").or(state_of_request));
    let (depth, others) = read_state(trace.origin.state.as_deref());
    let (depth_of_request, _) = read_state(state_of_request);
    if depth_of_request > depth {
        trace.origin.state = Some(state_with(depth_of_request, &others));
    }
    trace
}

/// The trace for the run that a call starts, one level deeper. `None` if the maximum depth is reached, or if the depth
/// cannot be read.
pub(super) fn nested_trace(mut trace: RequestTrace) -> Option<RequestTrace> {
    let (depth, others) = read_state(trace.origin.state.as_deref());
    if depth >= MAX_DEPTH {
        return None;
    }
    trace.origin.state = Some(state_with(depth + 1, &others));
    Some(trace)
}

/// The depth in a `tracestate`, and its other members. A depth that cannot be read counts as the greatest.
fn read_state(state: Option<&str>) -> (u32, Vec<&str>) {
    let members = state.unwrap_or_default().split(',').map(str::trim).filter(|member| !member.is_empty());
    let (own, others): (Vec<&str>, Vec<&str>) = members.partition(|member| member.starts_with(MEMBER));
    let depth = own.first().map_or(0, |member| member[MEMBER.len()..].parse().unwrap_or(u32::MAX));
    (depth, others)
}

fn state_with(depth: u32, others: &[&str]) -> String {
    let mut state = format!("{MEMBER}{depth}");
    for other in others {
        if state.len() + 1 + other.len() <= MAX_TRACESTATE_BYTES {
            state = format!("{state},{other}");
        }
    }
    state
}

#[cfg(test)]
mod tests;
