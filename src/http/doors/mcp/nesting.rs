//! How deep agents have called one another. It is told from call to call in `tracestate`, so an agent that is its own tool,
//! directly or by way of others, comes to an end, whichever servers and replicas are between.

use serde_json::{Map, Value};

use crate::http::trace::TraceId;

/// The member of `tracestate`.
const MEMBER: &str = "pes=";
/// How many calls there may be inside one another.
const MOST: u32 = 3;
/// What may be handed on of a `tracestate` (W3C Trace Context, 3.3.1.5).
const STATE_BYTES: usize = 512;

/// The trace that a call names in its `_meta`, else that of its request.
pub(super) fn named(params: &Map<String, Value>, request: &TraceId) -> TraceId {
    let meta = |name: &str| params.get("_meta")?.get(name)?.as_str();
    match meta("traceparent") {
        Some(parent) => TraceId::from_values(Some(parent), meta("tracestate")),
        None => request.clone(),
    }
}

/// The trace of the run that a call begins; `None`: it is too deep for another one.
pub(super) fn deeper(mut trace: TraceId) -> Option<TraceId> {
    let state = trace.1.state.take().unwrap_or_default();
    let members = state.split(',').map(str::trim).filter(|member| !member.is_empty());
    let (own, others): (Vec<&str>, Vec<&str>) = members.partition(|member| member.starts_with(MEMBER));
    let depth = own.first().map_or(Some(0), |member| member[MEMBER.len()..].parse().ok())?;
    if depth >= MOST {
        return None;
    }
    let mut state = format!("{MEMBER}{}", depth + 1);
    for other in others {
        if state.len() + 1 + other.len() <= STATE_BYTES {
            state = format!("{state},{other}");
        }
    }
    trace.1.state = Some(state);
    Some(trace)
}

#[cfg(test)]
mod tests;
