//! Traces as a collector of OpenTelemetry gets them.

mod otlp;
mod peer;

use std::collections::BTreeSet;

use rstest::rstest;
use serde_json::json;

use self::otlp::{Span, read};
use crate::recovery::process::{Place, Server};
use crate::support::app::App;
use crate::support::http::soon;
use crate::support::wire::{Step, Wire, answer};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

fn takes(requests: usize) -> Vec<Vec<Step>> {
    (0..requests).map(|_| answer("200 OK", "", "")).collect()
}

async fn collected(app: impl Fn(&mut pes::config::Telemetry), exchanges: Vec<Vec<Step>>) -> (App, Wire) {
    let wire = Wire::serve(exchanges).await;
    let endpoint = format!("http://{}", wire.address);
    let app = App::with(|config| {
        config.telemetry.endpoint = Some(endpoint);
        config.outbox.backoff_ms = vec![1, 1];
        app(&mut config.telemetry);
    })
    .await;
    (app, wire)
}

/// The spans of the next request.
async fn told(wire: &mut Wire) -> Vec<Span> {
    read(&soon(wire.request()).await.bytes).1
}

fn named<'s>(spans: &'s [Span], name: &str) -> &'s Span {
    spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no `{name}` in {spans:#?}"))
}

/// Starts a run of this trace and waits until it rests.
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
    let (app, mut wire) = collected(set, takes(2)).await;
    process(&app, "t", "send", "01").await;
    let first = soon(wire.request()).await;
    assert_eq!(first.line, "POST /v1/traces HTTP/1.1");
    assert_eq!(first.header("content-type"), Some("application/x-protobuf"));
    assert_eq!(first.header("authorization"), Some("Bearer secret"));
    let (resource, before) = read(&first.bytes);
    assert_eq!((resource["service.name"].as_str(), resource["deployment.environment.name"].as_str()), ("pes", "test"));

    let asked = app.asked("t").await;
    let answer = json!({ "suspensionId": asked["suspensionId"], "approved": true });
    app.ask("POST", "/threads/t/resume").header("prefer", "wait=30").json(&answer).send().await.expect(200);
    let after = told(&mut wire).await;

    let all: Vec<&Span> = before.iter().chain(&after).collect();
    assert!(all.iter().all(|span| span.trace == TRACE && span.start <= span.end && span.start > 0), "{all:#?}");
    let ids: BTreeSet<&str> = all.iter().map(|span| span.id.as_str()).collect();
    assert_eq!(ids.len(), all.len(), "no span is told twice");
    for span in &all {
        assert!(span.parent == CALLER || ids.contains(span.parent.as_str()), "{span:?} hangs on nothing");
    }
    let (one, two) = (named(&before, "invoke_agent pes"), named(&after, "invoke_agent pes"));
    assert_eq!((one.parent.as_str(), two.parent.as_str()), (CALLER, CALLER));
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
    let (app, mut wire) = collected(|_| {}, takes(1)).await;
    process(&app, "t", WORDS, "01").await;
    assert!(!holds(&soon(wire.request()).await.bytes, "zebra"));

    let (app, mut wire) =
        collected(|telemetry| telemetry.content = pes::config::telemetry::Content::Spans, takes(1)).await;
    process(&app, "t", WORDS, "01").await;
    assert!(holds(&soon(wire.request()).await.bytes, WORDS));
}

#[tokio::test]
async fn a_caller_that_does_not_trace_is_not_traced() {
    let (app, mut wire) = collected(|_| {}, takes(2)).await;
    process(&app, "quiet", "hello", "00").await;
    process(&app, "loud", "hello", "01").await;
    let spans = told(&mut wire).await;
    assert_eq!(named(&spans, "invoke_agent pes").attributes["gen_ai.conversation.id"], "loud");
    app.stop();
    app.stopped().await;
    assert_eq!(wire.waiting(), 0);
}

#[tokio::test]
async fn a_collector_that_is_busy_is_asked_again_and_one_that_refuses_is_not() {
    let busy = answer("503 Service Unavailable", "", "");
    let (app, mut wire) = collected(|_| {}, vec![busy.clone(), busy, answer("200 OK", "", "")]).await;
    process(&app, "t", "hello", "01").await;
    let (one, two, three) = (told(&mut wire).await, told(&mut wire).await, told(&mut wire).await);
    assert!(one == two && two == three && !one.is_empty(), "the same spans under the same ids");

    let (app, mut wire) = collected(|_| {}, vec![answer("400 Bad Request", "", ""), answer("200 OK", "", "")]).await;
    process(&app, "one", "hello", "01").await;
    let refused = told(&mut wire).await;
    process(&app, "two", "hello", "01").await;
    let next = told(&mut wire).await;
    assert!(named(&refused, "invoke_agent pes").attributes["gen_ai.conversation.id"] == "one");
    assert!(named(&next, "invoke_agent pes").attributes["gen_ai.conversation.id"] == "two");
}

const SCRIPT: &str = r#"
[[reply]]
when = { phase = "planning" }
json = { title = "T", intent = "I", plan = "P", answer = "Done.", todoList = [] }
"#;

/// Wherever the process is killed, the collector comes to hear the same.
#[rstest]
#[tokio::test]
async fn a_killed_process_loses_no_span(
    #[values("final.committed", "delivery.claimed", "delivery.sent")] failpoint: &str,
) {
    let mut wire = Wire::serve(takes(4)).await;
    let place = Place::sqlite(SCRIPT);
    let endpoint = format!("http://{}", wire.address);
    place.configure(&format!("outbox = {{ attempt_timeout_ms = 2000 }}\n[telemetry]\nendpoint = \"{endpoint}\"\n"));
    let mut server = Server::start(&place, Some(failpoint)).await;
    let ask = server.door.ask("POST", "/threads/t/process").json(&json!({ "query": "hello", "traceId": TRACE }));
    ask.send().await.expect(202);
    soon(server.reached()).await;
    server.kill().await;
    let sent_before = if failpoint == "delivery.sent" { Some(told(&mut wire).await) } else { None };
    let server = Server::start(&place, None).await;
    let spans = told(&mut wire).await;
    assert!(sent_before.is_none_or(|before| before == spans), "what is sent again is the same");
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names.iter().filter(|name| **name == "invoke_agent pes").count(), 1, "{names:?}");
    assert!(names.contains(&"plan") && names.iter().any(|name| name.starts_with("chat ")), "{names:?}");
    server.kill().await;
    assert_eq!(wire.waiting(), 0, "once is enough");
}
