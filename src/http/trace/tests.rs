use super::*;

#[test]
fn only_a_valid_header_counts() {
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let valid = format!("00-{trace}-00f067aa0ba902b7-01");
    assert_eq!(parse(&valid).as_deref(), Some(trace));
    assert_eq!(parse(&format!("01-{trace}-00f067aa0ba902b7-01-later")).as_deref(), Some(trace));
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
