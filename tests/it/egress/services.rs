//! HTTP tools: the request that a service gets, and how its response is handled.

use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::HeaderMap;
use pes::config::telemetry::Sampler;
use pes::config::{Config, HttpTool};
use pes::domain::tool::{ToolClass, ToolSpec};
use pes::egress::{DnsLookup, Egress, EgressRules, SigningSecret, sign};
use pes::tool::Tool;
use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{egress, fickle, untrusted};
use crate::support::app::App;
use crate::support::http::pass;
use crate::support::tool::{context, spec};
use crate::support::wire::{Step, Wire, answer};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn find_order(wire: &Wire, secret: Option<String>) -> HttpTool {
    HttpTool {
        name: "find_order".to_owned(),
        description: "Finds an order.".to_owned(),
        url: wire.url(),
        input_schema: json!({ "type": "object", "properties": { "id": { "type": "string" } } }),
        output_schema: Some(json!({ "type": "object", "required": ["state"] })),
        class: ToolClass::Read,
        idempotent: false,
        timeout_ms: 10_000,
        secret: secret.map(Into::into),
    }
}

async fn app(wire: &Wire, change: impl FnOnce(&mut Config)) -> App {
    let tool = find_order(wire, None);
    App::with(|config| {
        config.tools.http.push(tool);
        change(config);
    })
    .await
}

/// The only call of the run.
async fn call(app: &App) -> Value {
    let page = app.observed("t", "TOOL_EXECUTION").await;
    let id = page[0]["content"]["callId"].as_str().unwrap().to_owned();
    app.get(&format!("/threads/t/tool-calls/{id}")).await.expect(200)
}

async fn result_of(exchange: Vec<Step>) -> Value {
    let wire = Wire::serve(vec![exchange]).await;
    let app = app(&wire, |config| config.limits.tool_output_bytes = 10_000).await;
    app.finish("t", "order").await;
    call(&app).await["result"].take()
}

#[tokio::test]
async fn a_service_gets_one_signed_post_and_its_answer_is_the_output() {
    let mut wire = Wire::serve(vec![answer("200 OK", "", r#"{"state":"sent"}"#)]).await;
    let mut secret = tempfile::NamedTempFile::new().unwrap();
    writeln!(secret, "{SECRET}").unwrap();
    let tool = find_order(&wire, Some(format!("file:{}", secret.path().display())));
    let app = App::with(|config| config.tools.http.push(tool)).await;
    app.finish("t", "order").await;
    let call = call(&app).await;
    assert_eq!(call["result"]["output"], json!({ "state": "sent" }), "{call:#}");
    let request = wire.request().await;
    let body = &request.body;
    assert_eq!((&body["callId"], &body["tool"]), (&call["callId"], &json!("find_order")));
    assert_eq!((&body["arguments"], &body["threadId"]), (&json!({ "id": "7" }), &json!("t")));
    assert_eq!(body["runId"], call["runId"]);
    assert_eq!(request.header("idempotency-key").unwrap(), format!("t:{}", call["callId"].as_str().unwrap()));
    assert_eq!(request.header("traceparent"), body["traceparent"].as_str());
    let seconds = request.header("webhook-timestamp").unwrap().parse().unwrap();
    let mut expected = HeaderMap::new();
    let id = call["callId"].as_str().unwrap();
    sign(&mut expected, &[SigningSecret::parse(SECRET).unwrap()], id, seconds, body.to_string().as_bytes());
    for name in ["webhook-id", "webhook-signature"] {
        assert_eq!(request.header(name), expected[name].to_str().ok(), "{name}");
    }
}

/// The service also uses these flags to decide whether it traces.
#[tokio::test]
async fn a_service_is_told_whether_the_run_is_traced() {
    for (sampler, flags) in [(Sampler::AlwaysOn, "01"), (Sampler::AlwaysOff, "00")] {
        let mut wire = Wire::serve(vec![answer("200 OK", "", r#"{"state":"sent"}"#)]).await;
        // Nothing listens there: a collector that is down delays nothing.
        let set = |config: &mut Config| {
            (config.telemetry.endpoint, config.telemetry.sampler) = (Some("http://127.0.0.1:1".to_owned()), sampler);
        };
        let app = app(&wire, set).await;
        app.finish("t", "order").await;
        let parent = wire.request().await.header("traceparent").unwrap().to_owned();
        assert_eq!(parent.rsplit('-').next(), Some(flags), "{parent}");
    }
}

#[tokio::test]
async fn whatever_a_service_does_wrong_is_a_result_that_the_model_sees() {
    let long = format!(r#"{{"state":"{}"}}"#, "x".repeat(20_000));
    let table = [
        (answer("500 Oops", "", "broken"), "failed", "500 Internal Server Error: broken"),
        (
            answer("302 Found", "location: http://127.0.0.1:1/\r\n", ""),
            "failed",
            "302 Found, and redirects to http://127.0.0.1:1/,",
        ),
        (answer("200 OK", "", "<html>"), "invalid_output", "JSON"),
        (answer("200 OK", "", r#"{"other":1}"#), "invalid_output", "state"),
        (answer("200 OK", "", &long), "output_too_large", "10000 bytes"),
        (vec![Step::Cut], "failed", "connection"),
    ];
    for (exchange, code, words) in table {
        let result = result_of(exchange).await;
        assert_eq!((&result["status"], &result["error"]["code"]), (&json!("error"), &json!(code)), "{result:#}");
        assert!(result["error"]["message"].as_str().unwrap().contains(words), "{result:#}");
    }
}

#[tokio::test]
async fn a_service_that_broke_off_in_the_middle_of_its_work_leaves_doubt() {
    let wire = Wire::serve(vec![vec![Step::Cut]]).await;
    let tool = HttpTool { class: ToolClass::Write, idempotent: false, ..find_order(&wire, None) };
    let app = App::with(|config| config.tools.http.push(tool)).await;
    let asked = app.suspend("t", "order").await;
    assert_eq!(asked["kind"], "in_doubt", "{asked:#}");
    assert_eq!(wire.connections(), 1, "it is not called again by itself");
}

#[tokio::test]
async fn a_call_in_doubt_is_not_made_again_if_a_rule_denies_it_by_then_and_stays_in_doubt() {
    let wire = Wire::serve(vec![vec![Step::Cut]]).await;
    let tool = HttpTool { class: ToolClass::Write, ..find_order(&wire, None) };
    let app = App::with(|config| config.tools.http.push(tool)).await;
    let asked = app.suspend("t", "order").await;
    let rule = json!({ "id": "stop", "tool": "find_order", "action": "deny" });
    app.ask("PUT", "/policy").json(&json!({ "rules": [rule] })).send().await.expect(200);
    let retry = json!({ "suspensionId": asked["suspensionId"], "action": "retry" });
    let resumed = app.ask("POST", "/threads/t/resume").header("prefer", "wait=30").json(&retry).send().await;
    let again = resumed.expect(202)["suspensions"][0].clone();
    let told = again["message"].as_str().unwrap();
    let denied = "Policy denies `find_order` (stop). It was not made again. `find_order` may have had its effect.";
    assert!(again["kind"] == "in_doubt" && told.ends_with(denied), "{again:#}");
    assert_eq!(wire.connections(), 1);
}

#[tokio::test]
async fn a_service_that_does_not_answer_in_time_leaves_doubt() {
    let mut wire = Wire::serve(vec![vec![Step::Stall(Arc::new(Notify::new()))]]).await;
    let tool = HttpTool { class: ToolClass::External, timeout_ms: 20_000, ..find_order(&wire, None) };
    let app = App::with(|config| config.tools.http.push(tool)).await;
    let time_passes = async {
        wire.request().await;
        pass(Duration::from_secs(20)).await;
    };
    let (asked, ()) = tokio::join!(app.suspend("t", "order"), time_passes);
    assert_eq!(asked["kind"], "in_doubt", "{asked:#}");
    assert_eq!(wire.connections(), 1, "it is not called again by itself");
}

/// Never finds a name.
struct SilentDns;

#[async_trait]
impl DnsLookup for SilentDns {
    async fn addresses(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        std::future::pending().await
    }
}

#[rstest]
#[case(300, 240)]
#[case(10_000, 8_000)]
#[case(30_000, 10_000)]
#[tokio::test(start_paused = true)]
async fn a_call_that_found_no_connection_in_its_time_was_not_sent(#[case] timeout_ms: i64, #[case] waited: u128) {
    let rules = EgressRules { dns: Arc::new(SilentDns), ..EgressRules::default() };
    let egress = Arc::new(Egress::with_rules(Duration::from_secs(10), rules));
    let spec = ToolSpec { class: ToolClass::External, idempotent: false, timeout_ms, ..spec("find_order") };
    let to = untrusted("http://shop.example/").unwrap();
    let tool = pes::tool::http::HttpTool::new(spec, to, Ok(Vec::new()), egress, 1_000);
    let began = Instant::now();
    let error = tool.call(json!({}), context()).await.unwrap_err();
    assert_eq!((error.code.as_str(), began.elapsed().as_millis() / 10), ("failed", waited / 10), "{error:?}");
}

/// As by a load balancer without a backend.
#[tokio::test]
async fn a_call_whose_connection_was_closed_at_once_was_not_sent() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let to = untrusted(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    let (close, closed) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        drop(listener.accept());
        close.send(()).unwrap();
    });
    let spec = ToolSpec { class: ToolClass::External, idempotent: false, timeout_ms: 10_000, ..spec("find_order") };
    let egress = egress(&["127.0.0.1"], fickle(&["127.0.0.1"]));
    let tool = pes::tool::http::HttpTool::new(spec, to, Ok(Vec::new()), egress, 1_000);
    // The call has begun to connect, and this thread does nothing else until the connection is closed.
    let (called, ()) = tokio::join!(tool.call(json!({}), context()), async { closed.recv().unwrap() });
    let error = called.unwrap_err();
    assert!(error.code == "failed" && error.message.ends_with("it closed the connection at once"), "{error:?}");
}

#[rstest]
#[case("408 Request Timeout", "")]
#[case("502 Bad Gateway", "")]
#[case("504 Gateway Timeout", "")]
#[case("524 A Timeout Occurred", "error code: 524")]
#[case("503 Service Unavailable", "upstream connect error or disconnect/reset before headers")]
#[case("503 Service Unavailable", reset("reset reason: connection termination"))]
#[case("503 Service Unavailable", reset("reset reason: remote reset"))]
#[case("503 Service Unavailable", reset("reset reason: protocol error, transport failure reason: overflow"))]
#[case("503 Service Unavailable", reset("retried and the latest reset reason: connection failure"))]
#[tokio::test]
async fn a_service_that_was_lost_by_what_stands_before_it_leaves_doubt(#[case] status: &str, #[case] said: String) {
    let wire = Wire::serve(vec![answer(status, "", &said)]).await;
    let tool = HttpTool { class: ToolClass::Write, ..find_order(&wire, None) };
    let app = App::with(|config| config.tools.http.push(tool)).await;
    let asked = app.suspend("t", "order").await;
    assert_eq!(asked["kind"], "in_doubt", "{asked:#}");
    assert_eq!(wire.connections(), 1, "it is not called again by itself");
    // A tool that only reads has simply failed.
    assert_eq!(result_of(answer(status, "", &said)).await["error"]["code"], "failed");
}

/// Of Envoy, with this end.
fn reset(why: &str) -> String {
    format!("upstream connect error or disconnect/reset before headers. {why}")
}

/// It says so itself, or Envoy says that it sent nothing on.
#[rstest]
#[case("closed on sundays")]
#[case(reset("reset reason: overflow"))]
#[case(reset("reset reason: connection failure"))]
#[case(reset("reset reason: local connection failure"))]
#[case(reset("reset reason: remote connection failure, transport failure reason: delayed connect error: 111"))]
#[case(reset("reset reason: connection timeout"))]
#[tokio::test]
async fn a_service_that_is_not_there_has_failed(#[case] said: String) {
    let wire = Wire::serve(vec![answer("503 Service Unavailable", "", &said)]).await;
    let tool = HttpTool { class: ToolClass::Write, ..find_order(&wire, None) };
    let app = App::with(|config| config.tools.http.push(tool)).await;
    app.finish("t", "order").await;
    assert_eq!(call(&app).await["result"]["error"]["code"], "failed");
}

/// Many services answer so what they have carried out: the code keeps it from being ordered again. Others say with it where
/// the tool is now.
#[rstest]
#[case("301 Moved Permanently", "location: /orders/7\r\n", ToolClass::Write, "invalid_output")]
#[case("303 See Other", "location: /orders/7\r\n", ToolClass::External, "invalid_output")]
#[case("303 See Other", "", ToolClass::Write, "invalid_output")]
#[case("303 See Other", "", ToolClass::Read, "failed")]
#[case("303 See Other", "location: /orders/7\r\n", ToolClass::Read, "failed")]
#[case("308 Permanent Redirect", "location: /orders/7\r\n", ToolClass::Write, "failed")]
#[tokio::test]
async fn a_write_that_was_answered_with_a_redirect_may_have_been_carried_out(
    #[case] status: &str,
    #[case] location: &str,
    #[case] class: ToolClass,
    #[case] code: &str,
) {
    let wire = Wire::serve(vec![answer(status, location, "See /orders/7.")]).await;
    let egress = egress(&[&wire.address.to_string()], fickle(&["127.0.0.1"]));
    let spec = ToolSpec { class, timeout_ms: 10_000, ..spec("order") };
    let to = untrusted(&wire.url()).unwrap();
    let tool = pes::tool::http::HttpTool::new(spec, to, Ok(Vec::new()), egress, 1_000);
    let error = tool.call(json!({}), context()).await.unwrap_err();
    assert!(error.code == code && error.message.contains("/orders/7"), "{error:?}");
}

/// Cut, broken, busy: each is retried under the same key if the call is idempotent.
#[tokio::test]
async fn an_idempotent_call_is_made_again_after_what_passes() {
    let busy = answer("429 Too Many Requests", "retry-after-ms: 1\r\n", "");
    let exchanges =
        vec![vec![Step::Cut], answer("500 Oops", "", ""), busy, answer("200 OK", "", r#"{"state":"sent"}"#)];
    let mut wire = Wire::serve(exchanges).await;
    let tool = HttpTool { class: ToolClass::External, idempotent: true, ..find_order(&wire, None) };
    let app = App::with(|config| config.tools.http.push(tool)).await;
    app.finish("t", "order").await;
    let call = call(&app).await;
    assert_eq!((&call["result"]["output"], &call["attempt"]), (&json!({ "state": "sent" }), &json!(4)), "{call:#}");
    let key = wire.request().await.header("idempotency-key").unwrap().to_owned();
    for _ in 1..4 {
        assert_eq!(wire.request().await.header("idempotency-key"), Some(key.as_str()));
    }
}

/// The first attempt may have had its effect; what the service answers to the second does not tell.
#[tokio::test]
async fn an_idempotent_call_that_was_lost_before_it_was_refused_leaves_doubt() {
    let wire = Wire::serve(vec![vec![Step::Cut], answer("404 Not Found", "", "no such order")]).await;
    let tool = HttpTool { class: ToolClass::External, idempotent: true, ..find_order(&wire, None) };
    let app = App::with(|config| config.tools.http.push(tool)).await;
    let asked = app.suspend("t", "order").await;
    let message = asked["message"].as_str().unwrap();
    let last = ". The last attempt failed: The service answered 404 Not Found: no such order. `find_order` may have had \
                its effect.";
    assert!(message.starts_with("The connection to the service broke") && message.ends_with(last), "{asked:#}");
    let answer = json!({ "suspensionId": asked["suspensionId"], "action": "skip" });
    app.ask("POST", "/threads/t/resume").header("prefer", "wait=30").json(&answer).send().await.expect(200);
    assert_eq!((&call(&app).await["result"]["error"]["code"], wire.connections()), (&json!("unknown"), 2));
}

#[tokio::test]
async fn a_secret_that_cannot_be_found_is_told_before_anything_is_served() {
    let wire = Wire::serve(Vec::new()).await;
    for (reference, words) in [("env:PES_NO_SUCH_SECRET_HERE", "empty"), ("hunter2", "env:NAME or file:PATH")] {
        let mut config = Config::default();
        let folder = tempfile::tempdir().unwrap();
        config.store.data_dir = folder.path().to_owned();
        config.tools.http.push(find_order(&wire, Some(reference.to_owned())));
        let error = pes::App::build(config).await.err().expect("it cannot start").to_string();
        assert!(error.contains(words) && !error.contains("hunter2"), "{error}");
    }
}
