use super::*;

#[test]
fn only_a_valid_header_counts() {
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let valid = format!("00-{trace}-00f067aa0ba902b7-01");
    assert_eq!(parse(&valid).map(|parsed| parsed.id).as_deref(), Some(trace));
    assert_eq!(parse(&format!("01-{trace}-00f067aa0ba902b7-01-later")).map(|parsed| parsed.id).as_deref(), Some(trace));
    for wrong in [
        "",
        "00",
        &format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)),
        &format!("00-{trace}-{}-01", "0".repeat(16)),
        &format!("ff-{trace}-00f067aa0ba902b7-01"),
        &valid.to_uppercase(),
        &format!("{valid}-more"),
    ] {
        assert_eq!(parse(wrong), None, "{wrong}");
    }
}

#[test]
fn what_the_caller_says_besides_is_kept_if_it_is_valid() {
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
    let origin_of = |state: &str| RequestTrace::from_values(Some(parent), Some(state)).origin;
    let origin = origin_of("congo=t61rcWkgMzE,rojo=00f067aa0ba902b7");
    assert_eq!((origin.parent.as_deref(), origin.flags.as_deref()), (Some("00f067aa0ba902b7"), Some("00")));
    assert_eq!(origin.state.as_deref(), Some("congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"));
    for wrong in ["", "nonsense", &format!("a={}", "x".repeat(600)), "a=\u{7}"] {
        assert_eq!(origin_of(wrong).state, None, "{wrong}");
    }
    assert_eq!(RequestTrace::from_values(None, Some("a=b")).origin, TraceOrigin::default(), "a state of no trace");
}
