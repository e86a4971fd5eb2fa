//! `options.budget` limits a run, and a person is asked when it is exhausted.

use std::sync::Arc;

use pes::domain::usage::Price;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::app::App;
use crate::support::http::Said;
use crate::support::store::{Mood, Moody};
use crate::support::wire::{Step, Wire};

/// A dollar per thousand tokens of the demo model.
async fn priced() -> App {
    let price = Price { input_per_million: 1_000.0, output_per_million: 1_000.0, ..Price::default() };
    App::with(|config| config.prices.extend([("demo:*".to_owned(), price)])).await
}

async fn count(app: &App, thread: &str, options: Value) -> Said {
    let ask = app.ask("POST", &format!("/threads/{thread}/process")).header("prefer", "wait=30");
    ask.json(&json!({ "query": "count", "options": options })).send().await
}

async fn answer(app: &App, thread: &str, body: Value) -> Value {
    let ask = app.ask("POST", &format!("/threads/{thread}/resume")).header("prefer", "wait=30");
    ask.json(&body).send().await.expect(200)
}

#[tokio::test]
async fn a_run_over_its_budget_ends_with_what_was_done() {
    let app = priced().await;
    for (thread, budget, calls) in [
        ("calls", json!({ "maxLlmCalls": 1 }), 1),
        ("tokens", json!({ "maxTokens": 300 }), 0),
        ("money", json!({ "maxCostUsd": 0.000_01 }), 0),
    ] {
        let said = count(&app, thread, json!({ "budget": budget })).await.expect(200);
        let metadata = &said["metadata"];
        assert_eq!((&metadata["status"], &metadata["llmCalls"]), (&json!("partial"), &json!(calls)), "{said:#}");
        assert_eq!(metadata["error"]["code"], "budget_exceeded", "{thread}");
        assert!(said["response"]["content"].as_str().unwrap().contains("budget"), "{said:#}");
        let run = app.get(&format!("/runs/{}", metadata["runId"].as_str().unwrap())).await.expect(200);
        assert_eq!(run["status"], "completed", "{thread}");
    }
    let said = count(&app, "enough", json!({ "budget": { "maxTokens": 1_000_000, "maxCostUsd": 1_000 } })).await;
    assert_eq!(said.expect(200)["metadata"]["status"], "success");
    for (result, expected) in
        [("partial", json!(["money", "tokens", "calls"])), ("success", json!(["enough"])), ("error", json!([]))]
    {
        let found = app.get(&format!("/threads?status=idle&resultStatus={result}")).await.expect(200);
        let ids: Vec<&Value> = found["items"].as_array().unwrap().iter().map(|thread| &thread["threadId"]).collect();
        assert_eq!(json!(ids), expected, "{result}");
    }
}

#[tokio::test]
async fn a_person_is_asked_to_extend_it() {
    let app = priced().await;
    let options = json!({ "budget": { "maxLlmCalls": 1 }, "executionConfig": { "onBudget": "ask" } });
    for (thread, said, status) in [
        ("more", json!({ "approved": true, "value": { "maxLlmCalls": 100 } }), "success"),
        ("no", json!({ "approved": false }), "partial"),
    ] {
        let receipt = count(&app, thread, options.clone()).await.expect(202);
        let question = &receipt["suspensions"][0];
        assert_eq!((&receipt["status"], &question["kind"]), (&json!("suspended"), &json!("budget")), "{receipt:#}");
        let mut body = said;
        body["suspensionId"] = question["suspensionId"].clone();
        let answered = answer(&app, thread, body).await;
        assert_eq!(answered["metadata"]["status"], status, "{answered:#}");
    }
}

#[tokio::test]
async fn a_run_that_is_out_of_time_ends_although_its_model_is_silent() {
    let wire = Wire::serve(vec![vec![Step::Stall(Arc::new(Notify::new()))]]).await;
    let url = wire.url();
    let app = App::with(|config| config.models.openai.base_url = Some(url)).await;
    let said = count(&app, "t1", json!({ "budget": { "deadlineMs": 200 } })).await.expect(200);
    assert_eq!(said["metadata"]["status"], "partial", "{said:#}");
    assert_eq!(said["metadata"]["error"]["code"], "budget_exceeded");
}

#[tokio::test]
async fn a_budget_without_room_is_refused_by_field() {
    let app = App::start().await;
    for field in ["maxTokens", "maxCostUsd", "maxLlmCalls", "deadlineMs"] {
        let problem = count(&app, "t1", json!({ "budget": { field: 0 } })).await.problem("invalid");
        assert_eq!(problem["errors"][0]["pointer"], format!("/options/budget/{field}"), "{problem:#}");
    }
    app.get("/threads/t1").await.problem("not_found");
}

/// Its prompt could not be read, so that it was made again.
#[tokio::test]
async fn a_call_that_was_not_sent_takes_nothing_of_it() {
    let store = Moody::fresh().await;
    let app = App::of(store.clone(), |_| ()).await;
    app.finish("t1", "hello").await;
    store.set("history", Mood::FailsOnce);
    let ask = app.ask("POST", "/threads/t1/process").header("prefer", "wait=30");
    let body = json!({ "query": "hello", "options": { "budget": { "maxLlmCalls": 1 } } });
    let said = ask.json(&body).send().await.expect(200);
    let metadata = &said["metadata"];
    assert_eq!((&metadata["status"], &metadata["llmCalls"]), (&json!("success"), &json!(1)), "{said:#}");
    let failed = app.observed("t1", "LLM_STREAM_ERROR").await;
    let failed: Vec<&Value> = failed.iter().map(|it| &it["content"]["code"]).collect();
    assert_eq!(failed, [&json!("retry")]);
}
