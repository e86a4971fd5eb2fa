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
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn after(state: &str) -> Option<String> {
        deeper(TraceId::from_values(Some(PARENT), Some(state)))?.1.state
    }

    #[test]
    fn each_call_is_one_deeper_than_its_caller() {
        assert_eq!(after("").as_deref(), Some("pes=1"));
        assert_eq!(after("a=b, c=d").as_deref(), Some("pes=1,a=b,c=d"));
        assert_eq!(after("a=b,pes=2").as_deref(), Some("pes=3,a=b"));
        assert_eq!(after("pes=3"), None);
        assert_eq!(after("pes=x"), None, "what cannot be read is no way around");
        let long = format!("a={}", "x".repeat(505));
        assert_eq!(after(&long).as_deref(), Some("pes=1"), "what has no room is left out");
        assert_eq!(deeper(TraceId::new()).unwrap().1.state.as_deref(), Some("pes=1"));
    }

    #[test]
    fn the_trace_of_a_call_goes_before_that_of_its_request() {
        let request = TraceId::new();
        let params = |meta: Value| Map::from_iter([("_meta".to_owned(), meta)]);
        assert_eq!(named(&Map::new(), &request), request);
        assert_eq!(named(&params(Value::from(7)), &request), request);
        let meta = serde_json::json!({ "traceparent": PARENT, "tracestate": "pes=2" });
        let TraceId(trace, origin) = named(&params(meta), &request);
        assert_eq!((trace.as_str(), origin.state.as_deref()), ("4bf92f3577b34da6a3ce929d0e0e4736", Some("pes=2")));
    }
}
