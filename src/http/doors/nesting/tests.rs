use super::*;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn after(state: &str) -> Option<String> {
    nested_trace(RequestTrace::from_values(Some(PARENT), Some(state)))?.origin.state
}

#[test]
fn each_call_is_one_deeper_than_its_caller() {
    assert_eq!(after("").as_deref(), Some("pes=1"));
    assert_eq!(after("a=b, c=d").as_deref(), Some("pes=1,a=b,c=d"));
    assert_eq!(after("a=b,pes=2").as_deref(), Some("pes=3,a=b"));
    assert_eq!(after("pes=4").as_deref(), Some("pes=5"));
    assert_eq!(after("pes=5"), None);
    assert_eq!(after("pes=x"), None, "what cannot be read is no way around");
    let long = format!("a={}", "x".repeat(505));
    assert_eq!(after(&long).as_deref(), Some("pes=1"), "what has no room is left out");
    assert_eq!(nested_trace(RequestTrace::new()).unwrap().origin.state.as_deref(), Some("pes=1"));
}

#[test]
fn the_trace_of_a_call_goes_before_that_of_its_request() {
    let request = RequestTrace::new();
    let params = |meta: Value| Map::from_iter([("_meta".to_owned(), meta)]);
    assert_eq!(trace_of_call(&Map::new(), &request), request);
    assert_eq!(trace_of_call(&params(Value::from(7)), &request), request);
    let meta = serde_json::json!({ "traceparent": PARENT, "tracestate": "pes=2" });
    let trace = trace_of_call(&params(meta), &request);
    assert_eq!((trace.id.as_str(), trace.origin.state.as_deref()), ("4bf92f3577b34da6a3ce929d0e0e4736", Some("pes=2")));
}

#[test]
fn the_depth_of_a_call_is_never_less_than_that_of_its_request() {
    let state = |of_request: &str, meta: Value| {
        let request = RequestTrace::from_values(Some(PARENT), Some(of_request));
        trace_of_call(&Map::from_iter([("_meta".to_owned(), meta)]), &request).origin.state
    };
    let with = |state: &str| serde_json::json!({ "traceparent": PARENT, "tracestate": state });
    let without = serde_json::json!({ "traceparent": PARENT });
    assert_eq!(state("a=b,pes=2", without).as_deref(), Some("a=b,pes=2"));
    assert_eq!(state("pes=3", with("c=d,pes=1")).as_deref(), Some("pes=3,c=d"));
    assert_eq!(state("pes=3", with("c=d")).as_deref(), Some("pes=3,c=d"));
    assert_eq!(state("pes=1", with("pes=2")).as_deref(), Some("pes=2"));
    assert_eq!(state("pes=2", serde_json::json!({ "traceparent": "none" })).as_deref(), Some("pes=2"));
    let unreadable = state("pes=x", with("pes=0"));
    assert_eq!(nested_trace(RequestTrace::from_values(Some(PARENT), unreadable.as_deref())), None);
}
