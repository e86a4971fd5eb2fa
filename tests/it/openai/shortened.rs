//! A thread whose log was shortened still works.

use std::sync::Arc;

use pes::config::{Config, Synchronous};
use pes::domain::retention::Kept;
use pes::store::Store;
use pes::store::sqlite::Sqlite;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{chat, said, with};
use crate::support::app::App;
use crate::support::clocked::Clocked;
use crate::support::store::fresh_store;

async fn open(folder: &TempDir) -> Arc<dyn Store> {
    Arc::new(Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap())
}

async fn clocked(folder: &TempDir) -> Clocked {
    Clocked::on(open(folder).await, |config: &mut Config| config.retention.log_days = Kept::Days(90)).await
}

async fn close(clocked: Clocked) {
    let Clocked { instance, store, .. } = clocked;
    instance.close().await;
    drop(store);
}

/// A server on a store with a thread whose log was shortened.
async fn app(folder: &TempDir) -> App {
    let clocked = clocked(folder).await;
    clocked.finish("mine").await;
    clocked.days_pass(100).await;
    clocked.finish("mine").await;
    close(clocked).await;
    let app = App::of(open(folder).await, |_| {}).await;
    assert_ne!(app.get("/threads/mine/state").await.expect(200)["minSeq"], 1);
    app
}

#[tokio::test]
async fn a_response_goes_on_there_with_what_was_answered() {
    let folder = tempfile::tempdir().unwrap();
    let app = app(&folder).await;
    let respond = async |body: &Value| app.ask("POST", "/v1/responses").json(body).send().await.expect(200);
    let function = json!({ "type": "function", "name": "get_location", "parameters": { "type": "object" } });
    let asks = json!({ "model": "pes", "input": "locate", "conversation": "mine",
        "tools": [function, { "type": "mcp", "server_label": "pes", "server_url": "x" }] });
    let first = respond(&asks).await;
    let output = first["output"].as_array().unwrap();
    let answers: Vec<Value> = output
        .iter()
        .filter_map(|item| match item["type"].as_str() {
            Some("function_call") => {
                Some(json!({ "type": "function_call_output", "call_id": item["call_id"], "output": "Rome" }))
            }
            Some("mcp_approval_request") => {
                Some(json!({ "type": "mcp_approval_response", "approval_request_id": item["id"], "approve": true }))
            }
            _ => None,
        })
        .collect();
    let second = respond(&with(asks, json!({ "input": answers }))).await;
    assert_eq!(second["status"], "completed", "{second:#}");
    let id = second["id"].as_str().unwrap();
    assert_eq!(app.get(&format!("/v1/responses/{id}")).await.expect(200), second);
}

#[tokio::test]
async fn a_chat_that_is_sent_again_there_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let app = app(&folder).await;
    let ask = || chat(&app, &with(said("count"), json!({ "stream": true }))).header("x-pes-thread", "mine");
    let first = ask().header("x-stainless-retry-count", "0").send().await;
    let again = ask().header("x-stainless-retry-count", "1").send().await;
    assert_eq!(first.header("x-pes-run"), again.header("x-pes-run"));
    for answer in [first, again] {
        assert!(answer.text().contains("Two and two are four."), "{}", answer.text());
    }
}

#[tokio::test]
async fn a_response_whose_log_is_gone_says_so() {
    let store = fresh_store().await;
    let app = App::of(store.clone(), |_| {}).await;
    let body = json!({ "model": "pes", "input": "hello", "conversation": "mine" });
    let response = app.ask("POST", "/v1/responses").json(&body).send().await.expect(200);
    app.stopped().await;
    let clocked = Clocked::on(store.clone(), |config| config.retention.log_days = Kept::Days(90)).await;
    clocked.days_pass(400).await;
    clocked.finish("mine").await;
    let app = App::of(store, |_| {}).await;
    let gone = app.get(&format!("/v1/responses/{}", response["id"].as_str().unwrap())).await;
    assert_eq!(gone.expect(410)["error"]["code"], "history_compacted");
}
