//! Agents built with the protocol's own library (`tests/peers/a2a_server.py`), which `scripts/test --peers` installs
//! and starts: every course of a task, over both bindings and in both versions.

use pes::config::env::Variables;
use rstest::rstest;
use serde_json::json;

use super::{delegated, ended, knowing, results};
use crate::support::app::App;
use crate::support::http::soon;

/// Longer than any test: everything known was reported, not polled.
const NEVER: i64 = 3_600_000;

/// A server that knows the agent with this behaviour.
async fn app(dialect: &str, way: &str, poll_ms: i64) -> App {
    let variables = Variables::of_process();
    let url = variables.get("A2A_SDK_URL").expect("A2A_SDK_URL is set by scripts/test --peers");
    knowing(format!("{url}/{dialect}/{way}/.well-known/agent-card.json"), poll_ms).await
}

#[rstest]
#[ignore = "needs a2a-sdk: scripts/test --peers"]
#[tokio::test]
async fn what_it_made_comes_back_whole(
    #[values("jsonrpc-1.0", "jsonrpc-0.3", "rest-1.0", "rest-0.3")] dialect: &str,
    // Polled, reported by callback, streamed.
    #[values(("does", 20), ("works", NEVER), ("streams", NEVER))] (way, poll_ms): (&str, i64),
) {
    let app = app(dialect, way, poll_ms).await;
    app.finish("t", "delegate").await;
    let result = &results(&app, "t").await[0];
    assert_eq!(result["output"]["text"], "done by the library", "{result:#}");
    let artifact = &result["output"]["artifacts"][0];
    assert_eq!(artifact["name"], "result");
    let file = json!({ "raw": "AAE=", "filename": "two.bin", "mediaType": "application/octet-stream" });
    assert_eq!(artifact["parts"][1], file, "{artifact:#}");
    assert_eq!(artifact["parts"][2]["data"]["n"].as_f64(), Some(7.0), "{artifact:#}");
}

#[rstest]
#[ignore = "needs a2a-sdk: scripts/test --peers"]
#[tokio::test]
async fn what_it_asks_is_asked_here_and_the_answer_reaches_it(
    #[values("jsonrpc-1.0", "jsonrpc-0.3", "rest-1.0", "rest-0.3")] dialect: &str,
) {
    let app = app(dialect, "asks", 20).await;
    let asked = app.suspend("t", "delegate").await;
    assert_eq!((&asked["kind"], &asked["message"]), (&json!("peer_input"), &json!("which one?")));
    let answer = json!({ "suspensionId": asked["suspensionId"], "value": "the blue one" });
    let run = app.post("/threads/t/resume", answer).await.expect(202)["runId"].as_str().unwrap().to_owned();
    assert_eq!(ended(&app, &run).await["status"], "completed");
    assert_eq!(results(&app, "t").await[0]["output"]["text"], "told the blue one");
}

#[rstest]
#[ignore = "needs a2a-sdk: scripts/test --peers"]
#[tokio::test]
async fn why_it_failed_is_told_to_the_model(
    #[values("jsonrpc-1.0", "jsonrpc-0.3", "rest-1.0", "rest-0.3")] dialect: &str,
) {
    let app = app(dialect, "fails", 20).await;
    app.finish("t", "delegate").await;
    let error = &results(&app, "t").await[0]["error"];
    assert_eq!((&error["code"], &error["message"]), (&json!("peer_failed"), &json!("the library cannot")));
}

#[rstest]
#[ignore = "needs a2a-sdk: scripts/test --peers"]
#[tokio::test]
async fn a_cancel_reaches_it(#[values("jsonrpc-1.0", "jsonrpc-0.3", "rest-1.0", "rest-0.3")] dialect: &str) {
    let app = app(dialect, "hangs", NEVER).await;
    let (run, task) = delegated(&app, "t").await;
    app.ask("POST", &format!("/runs/{run}/cancel")).send().await.expect(202);
    let heard = soon(async {
        loop {
            let task = app.get(&format!("/tasks/{task}")).await.expect(200);
            if !task["cancelHeard"].is_null() {
                return task["cancelHeard"].clone();
            }
        }
    });
    assert_eq!(heard.await, true);
}

#[rstest]
#[ignore = "needs a2a-sdk: scripts/test --peers"]
#[tokio::test]
async fn a_reply_without_a_task_is_the_result(
    #[values("jsonrpc-1.0", "jsonrpc-0.3", "rest-1.0", "rest-0.3")] dialect: &str,
) {
    let app = app(dialect, "says", NEVER).await;
    app.finish("t", "delegate").await;
    assert_eq!(results(&app, "t").await[0]["output"]["text"], "said by the library");
}
