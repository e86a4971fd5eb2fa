//! Other collectors can read what this server exports: one built from OpenTelemetry's own messages and names, rotel,
//! and Phoenix.

use std::collections::BTreeMap;
use std::process::Stdio;

use pes::config::env::Variables;
use pes::config::telemetry::Content;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::TcpListener;
use tokio::process::{Child, ChildStdout, Command};

use super::{CALLER, TRACE, process};
use crate::support::app::App;
use crate::support::http::{Ask, soon};

/// Every kind of span of a run, and the request that asked for it.
const OPERATIONS: [&str; 4] = ["invoke_agent", "plan", "chat", "execute_tool"];
const REQUEST: &str = "POST /threads/{thread}/process";

/// Built from OpenTelemetry's own parts; see tests/peers/otlp_collector.py.
struct Collector {
    port: u16,
    lines: Lines<BufReader<ChildStdout>>,
    _process: Child,
}

impl Collector {
    async fn start() -> Self {
        let mut command = Command::new("target/peers/opentelemetry/bin/python");
        command.args(["-B", "tests/peers/otlp_collector.py"]).current_dir(env!("CARGO_MANIFEST_DIR"));
        let mut process = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("it is installed");
        let mut lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        let port = soon(lines.next_line()).await.expect("text").expect("it says its port");
        Self { port: port.parse().expect("a number"), lines, _process: process }
    }

    /// Reads until the run and its request were exported.
    async fn judge(&mut self) {
        let mut spans: Vec<Value> = Vec::new();
        while !(OPERATIONS.iter().all(|known| spans.iter().any(|span| span["operation"] == *known))
            && spans.iter().any(|span| span["name"] == REQUEST))
        {
            let line = soon(self.lines.next_line()).await.expect("text").expect("a request");
            let told: Value = serde_json::from_str(&line).expect("JSON");
            let seen = (&told["path"], &told["isWhole"], &told["strange"]);
            assert_eq!(seen, (&json!("/v1/traces"), &json!(true), &json!([])), "{told:#}");
            spans.extend(told["spans"].as_array().expect("spans").iter().cloned());
        }
        assert!(spans.iter().all(|span| span["isOver"] == true && span["trace"] == TRACE), "{spans:#?}");
    }
}

/// A server that exports everything.
async fn app(endpoint: String) -> App {
    App::with(|config| {
        config.telemetry.endpoint = Some(endpoint);
        config.telemetry.content = Content::Spans;
        // A collector that has just started is polled until it answers.
        config.outbox.backoff_ms = vec![200; 100];
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs OpenTelemetry below target/peers: scripts/test --peers"]
async fn the_messages_of_opentelemetry_are_a_peer() {
    let mut collector = Collector::start().await;
    let app = app(format!("http://127.0.0.1:{}", collector.port)).await;
    process(&app, "t", "count", "01").await;
    collector.judge().await;
}

/// It decodes the spans, and forwards them as it understood them.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs rotel and OpenTelemetry below target/peers: scripts/test --peers"]
async fn the_collector_rotel_is_a_peer() {
    let mut collector = Collector::start().await;
    let free = async || TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("it is bound");
    let (http, grpc) = (free().await.to_string(), free().await.to_string());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/target/peers/rotel/bin/rotel-agent"));
    command.args(["start", "--exporter", "otlp", "--otlp-exporter-protocol", "http"]);
    command.args(["--otlp-exporter-endpoint", &format!("http://127.0.0.1:{}", collector.port)]);
    command.args(["--otlp-http-endpoint", &http, "--otlp-grpc-endpoint", &grpc]);
    command.current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let _rotel = command.spawn().expect("it is installed");
    let app = app(format!("http://{http}")).await;
    process(&app, "t", "count", "01").await;
    collector.judge().await;
}

/// It shows runs by their kinds: agents, models, tools.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Phoenix: scripts/test --peers"]
async fn the_traces_of_phoenix_are_a_peer() {
    let url = Variables::of_process().get("PHOENIX_URL").expect("scripts/test --peers starts it").to_owned();
    let address = url.trim_start_matches("http://").parse().expect("an address");
    let app = app(url.clone()).await;
    // It keeps earlier exports.
    let trace = uuid::Uuid::new_v4().simple().to_string();
    let ask = app.ask("POST", "/threads/t/process").header("prefer", "wait=30");
    let ask = ask.header("traceparent", &format!("00-{trace}-{CALLER}-01"));
    ask.json(&json!({ "query": "count" })).send().await.expect(200);
    let kinds: BTreeMap<String, String> = soon(async {
        loop {
            let path = format!("/v1/projects/default/spans?limit=100&trace_id={trace}");
            let said = Ask::new(address, "GET", &path).send().await;
            let spans: Value = serde_json::from_str(&said.text()).unwrap_or_default();
            let spans = spans["data"].as_array().cloned().unwrap_or_default();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let named = spans.iter().filter(|span| span["context"]["trace_id"] == trace.as_str());
            let named: BTreeMap<_, _> = named.map(|span| (text(&span["name"]), text(&span["span_kind"]))).collect();
            if named.contains_key(REQUEST) && named.contains_key("invoke_agent pes") {
                return named;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    for name in ["plan", "pes.step", "chat demo-scripted", "execute_tool calculator"] {
        assert!(kinds.contains_key(name), "{name} of {kinds:?}");
    }
}
