//! Traces as an OpenTelemetry collector receives them.

mod followed;
mod long;
mod peer;
mod requests;
mod together;
mod waiting;

use std::collections::BTreeSet;

use rstest::rstest;
use serde_json::json;

use crate::support::app::App;
use crate::support::collector::Collector;
use crate::support::http::soon;
use crate::support::otlp::{Span, read};
use crate::support::process::{Place, Server};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

/// A server that exports to a collector with these responses.
async fn collected(change: impl Fn(&mut pes::config::Telemetry), answers: &[u16]) -> (App, Collector) {
    let collector = Collector::start(answers).await;
    let endpoint = collector.endpoint();
    let app = App::with(|config| {
        config.telemetry.endpoint = Some(endpoint);
        config.outbox.backoff_ms = vec![1, 1];
        change(&mut config.telemetry);
    })
    .await;
    (app, collector)
}

fn named<'s>(spans: &'s [Span], name: &str) -> &'s Span {
    spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no `{name}` in {spans:#?}"))
}

/// Starts a run of this trace, and waits until it ends or is suspended.
async fn process(app: &App, thread: &str, query: &str, flags: &str) {
    let ask = app.ask("POST", &format!("/threads/{thread}/process")).header("prefer", "wait=30");
    let ask = ask.header("traceparent", &format!("00-{TRACE}-{CALLER}-{flags}"));
    let said = ask.json(&json!({ "query": query })).send().await;
    assert!([200, 202].contains(&said.status), "{}", said.text());
}

#[tokio::test]
async fn a_run_that_waits_for_a_person_is_one_trace_in_two_activations() {
    let set = |telemetry: &mut pes::config::Telemetry| {
        telemetry.headers = Some("authorization=Bearer%20secret".into());
        telemetry.resource_attributes = Some("deployment.environment.name=test".into());
    };
    let (app, mut collector) = collected(set, &[]).await;
    process(&app, "t", "send", "01").await;
    let first = collector.told().await;
    assert_eq!(first.path, "/v1/traces");
    assert_eq!(
        (&first.headers["content-type"], &first.headers["authorization"]),
        (&"application/x-protobuf".parse().unwrap(), &"Bearer secret".parse().unwrap())
    );
    let (resource, before) = read(&first.bytes);
    assert_eq!((resource["service.name"].as_str(), resource["deployment.environment.name"].as_str()), ("pes", "test"));

    let asked = app.asked("t").await;
    let answer = json!({ "suspensionId": asked["suspensionId"], "approved": true });
    app.ask("POST", "/threads/t/resume").header("prefer", "wait=30").json(&answer).send().await.expect(200);
    let after = collector.spans().await;
    let asked = collector.requests_until("POST /threads/{thread}/resume").await;
    let asked = named(&asked, "POST /threads/{thread}/process");
    assert_eq!((asked.trace.as_str(), asked.parent.as_str()), (TRACE, CALLER));

    let all: Vec<&Span> = before.iter().chain(&after).collect();
    assert!(all.iter().all(|span| span.trace == TRACE && span.start <= span.end && span.start > 0), "{all:#?}");
    let ids: BTreeSet<&str> = all.iter().map(|span| span.id.as_str()).collect();
    assert_eq!(ids.len(), all.len(), "no span is told twice");
    for span in &all {
        assert!(span.parent == asked.id || ids.contains(span.parent.as_str()), "{span:?} hangs on nothing");
    }
    let (one, two) = (named(&before, "invoke_agent pes"), named(&after, "invoke_agent pes"));
    assert_eq!((one.parent.as_str(), two.parent.as_str()), (asked.id.as_str(), asked.id.as_str()));
    assert_eq!((one.links.len(), two.links.as_slice()), (0, [one.id.clone()].as_slice()));
    assert_eq!(one.events, ["pes.suspended"]);
    assert_eq!(two.events, ["pes.resumed"]);
    assert_eq!(
        (one.attributes["pes.run.activation"].as_str(), two.attributes["pes.run.activation"].as_str()),
        ("1", "2")
    );
    assert_eq!(two.attributes["pes.run.status"], "completed");
    assert!(one.end <= two.start, "nothing is open while a person thinks");

    let plan = named(&before, "plan");
    assert_eq!(plan.parent, one.id);
    assert!(before.iter().any(|span| span.name.starts_with("chat ") && span.parent == plan.id));
    let mail = named(&after, "execute_tool demo_send_email");
    assert_eq!(mail.attributes["gen_ai.tool.name"], "demo_send_email");
    assert_eq!(
        (mail.attributes["pes.policy.action"].as_str(), mail.attributes["pes.approval.decision"].as_str()),
        ("ask", "approved")
    );
    let step = after.iter().find(|span| span.id == mail.parent).expect("its item's step");
    assert_eq!(
        (step.name.as_str(), step.parent.as_str(), step.attributes["pes.item.id"].as_str()),
        ("pes.step", two.id.as_str(), "mail")
    );
}

#[tokio::test]
async fn what_was_said_leaves_only_where_it_is_asked_for() {
    const WORDS: &str = "sum these zebra words";
    let holds = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    let (app, mut collector) = collected(|_| {}, &[]).await;
    process(&app, "t", WORDS, "01").await;
    assert!(!holds(&collector.told().await.bytes, "zebra"));

    let (app, mut collector) =
        collected(|telemetry| telemetry.content = pes::config::telemetry::Content::Spans, &[]).await;
    process(&app, "t", WORDS, "01").await;
    assert!(holds(&collector.told().await.bytes, WORDS));
}

/// Its spans are exported half a second later.
#[tokio::test]
async fn a_run_whose_thread_is_deleted_at_once_is_traced() {
    let (app, mut collector) = collected(|_| {}, &[]).await;
    process(&app, "t", "hello", "01").await;
    app.ask("DELETE", "/threads/t").send().await.expect(204);
    let spans = collector.spans().await;
    assert_eq!(named(&spans, "invoke_agent pes").attributes["gen_ai.conversation.id"], "t");
}

#[tokio::test]
async fn a_caller_that_does_not_trace_is_not_traced() {
    let (app, mut collector) = collected(|_| {}, &[]).await;
    process(&app, "quiet", "hello", "00").await;
    process(&app, "loud", "hello", "01").await;
    let spans = collector.spans().await;
    assert_eq!(named(&spans, "invoke_agent pes").attributes["gen_ai.conversation.id"], "loud");
    app.stop();
    app.stopped().await;
    assert_eq!(collector.waiting(), 0);
}

#[tokio::test]
async fn a_collector_that_is_busy_is_asked_again_and_one_that_refuses_is_not() {
    let (app, mut collector) = collected(|_| {}, &[503, 503]).await;
    process(&app, "t", "hello", "01").await;
    let (one, two, three) = (collector.spans().await, collector.spans().await, collector.spans().await);
    assert!(one == two && two == three && !one.is_empty(), "the same spans under the same ids");

    let (app, mut collector) = collected(|_| {}, &[400]).await;
    process(&app, "one", "hello", "01").await;
    let refused = collector.spans().await;
    process(&app, "two", "hello", "01").await;
    let next = collector.spans().await;
    assert!(named(&refused, "invoke_agent pes").attributes["gen_ai.conversation.id"] == "one");
    assert!(named(&next, "invoke_agent pes").attributes["gen_ai.conversation.id"] == "two");
}

/// Two spans rejected, because of a "quota": it is in the response of success.
const PARTIAL_SUCCESS: &[u8] = b"\x0a\x09\x08\x02\x12\x05quota";

#[tokio::test]
async fn spans_that_a_collector_rejects_in_a_success_are_counted_and_logged_and_not_sent_again() {
    let mut collector = Collector::responding(&[], PARTIAL_SUCCESS).await;
    let place = Place::sqlite(SCRIPT);
    place.configure(&format!("[telemetry]\nendpoint = \"{}\"\n", collector.endpoint()));
    let server = Server::start(&place, None).await;
    let ask = server.address.ask("POST", "/threads/t/process").json(&json!({ "query": "hello" }));
    ask.send().await.expect(202);
    let told = collector.spans().await.len();
    assert!(told > 2, "{told}");
    let is_counted = async {
        let sample = "pes_telemetry_spans_total{outcome=\"refused\"} 2\n";
        while !server.address.ask("GET", "/metrics").send().await.text().contains(sample) {}
    };
    soon(is_counted).await;
    let log = std::fs::read_to_string(place.folder().join("log")).unwrap();
    let line = log.lines().find(|line| line.contains("the collector did not take all spans of a request"));
    assert!(line.is_some_and(|line| line.contains("quota")), "{log}");
    server.kill().await;
    assert_eq!(collector.waiting(), 0);
}

const SCRIPT: &str = r#"
[[reply]]
when = { phase = "planning" }
json = { title = "T", intent = "I", plan = "P", answer = "Done.", todoList = [] }
"#;

/// Wherever the process is killed, the collector receives the same spans.
#[rstest]
#[tokio::test]
async fn a_killed_process_loses_no_span(
    #[values("final.committed", "delivery.claimed", "delivery.sent")] failpoint: &str,
) {
    let mut collector = Collector::start(&[]).await;
    let place = Place::sqlite(SCRIPT);
    let endpoint = collector.endpoint();
    place.configure(&format!("outbox = {{ attempt_timeout_ms = 2000 }}\n[telemetry]\nendpoint = \"{endpoint}\"\n"));
    let mut server = Server::start(&place, Some(failpoint)).await;
    let ask = server.address.ask("POST", "/threads/t/process").json(&json!({ "query": "hello", "traceId": TRACE }));
    ask.send().await.expect(202);
    server.must_reach().await;
    server.kill().await;
    let sent_before = if failpoint == "delivery.sent" { Some(collector.spans().await) } else { None };
    let server = Server::start(&place, None).await;
    let spans = collector.spans().await;
    assert!(sent_before.is_none_or(|before| before == spans), "what is sent again is the same");
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names.iter().filter(|name| **name == "invoke_agent pes").count(), 1, "{names:?}");
    assert!(names.contains(&"plan") && names.iter().any(|name| name.starts_with("chat ")), "{names:?}");
    server.kill().await;
    assert_eq!(collector.waiting(), 0, "once is enough");
}
