use super::*;

fn of(lines: &[&str]) -> bool {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(ACCEPT, line.parse().unwrap());
    }
    wants_events(&headers)
}

#[test]
fn events_are_sent_to_those_who_name_them_and_do_not_prefer_json() {
    for wanted in [
        "text/event-stream",
        "TEXT/Event-Stream",
        "application/json, text/event-stream",
        "text/event-stream;q=0.5, */*;q=0.1",
        "text/event-stream ; charset=utf-8 ; Q=0.001",
        "application/json;q=0.4, text/event-stream;q=0.5",
        "text/event-stream;q=much",
    ] {
        assert!(of(&[wanted]), "{wanted}");
    }
    assert!(of(&["application/json", "text/event-stream"]), "in two headers");
    for unwanted in [
        "",
        "*/*",
        "text/*",
        "application/json",
        "text/event-streamfoo",
        "text/event-stream;q=0",
        "text/event-stream;q=0.000",
        "text/event-stream;q=0.1, application/json",
        "text/plain;x=text/event-stream",
    ] {
        assert!(!of(&[unwanted]), "{unwanted}");
    }
    assert!(!of(&[]), "without the header");
}
