//! A collector made of OpenTelemetry's own messages and names reads what this server sends.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::support::app::App;
use crate::support::http::soon;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs OpenTelemetry below target/peers: scripts/test --peers"]
async fn the_messages_of_opentelemetry_are_a_peer() {
    let mut command = Command::new("target/peers/opentelemetry/bin/python");
    command.args(["-B", "tests/peers/otlp_collector.py"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    let mut collector = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("it is installed");
    let mut lines = BufReader::new(collector.stdout.take().expect("it is piped")).lines();
    let port = soon(lines.next_line()).await.expect("text").expect("it says its port");
    let app = App::with(|config| {
        config.telemetry.endpoint = Some(format!("http://127.0.0.1:{port}"));
        config.telemetry.content = pes::config::telemetry::Content::Spans;
    })
    .await;
    let ask = app.ask("POST", "/threads/t/process").header("prefer", "wait=30");
    ask.json(&json!({ "query": "count" })).send().await.expect(200);

    let line = soon(lines.next_line()).await.expect("text").expect("a request");
    let told: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(
        (&told["path"], &told["isWhole"], &told["strange"]),
        (&json!("/v1/traces"), &json!(true), &json!([])),
        "{told:#}"
    );
    let spans = told["spans"].as_array().expect("spans");
    assert!(spans.iter().all(|span| span["isOver"] == true && span["trace"].as_str().is_some_and(|id| id.len() == 32)));
    for operation in ["invoke_agent", "plan", "chat", "execute_tool"] {
        assert!(spans.iter().any(|span| span["operation"] == operation), "{operation}: {told:#}");
    }
}
