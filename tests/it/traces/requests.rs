//! The span of each HTTP request as a collector receives it.

use serde_json::json;

use super::{CALLER, TRACE, collected, named, process};

#[tokio::test]
async fn a_request_is_a_span_between_its_caller_and_what_it_asked_for() {
    let (app, mut collector) = collected(|_| {}, &[]).await;
    process(&app, "t", "hello", "01").await;
    let run = collector.spans().await;
    let requests = collector.requests_until("POST /threads/{thread}/process").await;
    let asked = named(&requests, "POST /threads/{thread}/process");
    assert_eq!((asked.trace.as_str(), asked.parent.as_str(), asked.status), (TRACE, CALLER, 0));
    assert_eq!(named(&run, "invoke_agent pes").parent, asked.id);
    assert!(asked.start > 0 && asked.start <= named(&run, "invoke_agent pes").start && asked.end >= asked.start);
    for (name, value) in [
        ("http.request.method", "POST"),
        ("http.route", "/threads/{thread}/process"),
        ("url.path", "/threads/t/process"),
        ("url.scheme", "http"),
        ("http.response.status_code", "200"),
    ] {
        assert_eq!(asked.attributes[name], value, "{name}");
    }
}

/// Nor is anything exported for a caller that does not trace; a trace that starts here has no parent.
#[tokio::test]
async fn who_looks_whether_the_server_is_well_is_told_of_nowhere() {
    let (app, mut collector) = collected(|_| {}, &[]).await;
    for probe in ["/healthz", "/readyz", "/metrics"] {
        app.get(probe).await;
    }
    let quiet = app.ask("GET", "/tools").header("traceparent", &format!("00-{TRACE}-{CALLER}-00"));
    quiet.send().await.expect(200);
    app.get("/threads/none").await.problem("not_found");
    app.ask("POST", "/threads").json(&json!({ "threadId": "last" })).send().await.expect(201);
    let requests = collector.requests_until("POST /threads").await;
    let names: Vec<&str> = requests.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["GET /threads/{thread}", "POST /threads"]);
    assert!(requests.iter().all(|span| span.parent.is_empty() && span.status == 0 && span.trace != TRACE));
    assert_eq!(requests[0].attributes["http.response.status_code"], "404");
}

/// Pending spans are exported before the server stops.
#[tokio::test]
async fn the_last_requests_are_told_when_the_server_stops() {
    let (app, mut collector) = collected(|_| {}, &[]).await;
    app.get("/tools").await.expect(200);
    app.stop();
    app.stopped().await;
    assert_eq!(collector.requests_until("GET /tools").await.len(), 1);
}
