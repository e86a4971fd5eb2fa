//! A refused request leaves nothing behind, although its client sends it again and again.

use serde_json::{Value, json};

use super::{CHAT, chat, said, turns, with};
use crate::support::app::App;

const HELLO: &str = "Hello there.";

async fn threads(app: &App) -> Vec<String> {
    let threads = app.get("/threads?limit=200").await.expect(200);
    threads["items"].as_array().unwrap().iter().map(|it| it["threadId"].as_str().unwrap().to_owned()).collect()
}

/// A request that OpenAI's libraries may retry.
async fn is_refused(app: &App, path: &str, body: &Value, status: u16) {
    let before = threads(app).await;
    for count in ["0", "1", "2"] {
        let ask = app.ask("POST", path).json(body).header("x-stainless-retry-count", count);
        let said = ask.send().await;
        assert_eq!(said.status, status, "{}", said.text());
        assert_eq!(threads(app).await, before, "{body}");
    }
}

#[tokio::test]
async fn a_request_that_is_refused_leaves_no_thread_behind() {
    let app = App::start().await;
    for texts in [&["hello"][..], &["hello", HELLO, "count"][..]] {
        chat(&app, &turns(texts)).send().await.expect(200);
    }
    let respond = async |body: Value| app.ask("POST", "/v1/responses").json(&body).send().await.expect(200);
    let first = respond(json!({ "model": "pes", "input": "hello" })).await;
    respond(json!({ "model": "pes", "input": "hello", "previous_response_id": first["id"] })).await;
    app.ask("PUT", "/limits").json(&json!({ "tenantDayTokens": 1 })).send().await.expect(200);
    // Each would start as a copy, or as a thread of another core.
    let edited = turns(&["hello", HELLO, "edited"]);
    is_refused(&app, CHAT, &edited, 429).await;
    is_refused(&app, CHAT, &with(edited.clone(), json!({ "metadata": { "pes_thread": "mine" } })), 429).await;
    let core = "react@demo:demo-scripted";
    is_refused(&app, CHAT, &with(said("hello"), json!({ "model": core })), 429).await;
    let after = json!({ "model": "pes", "input": "edited", "previous_response_id": first["id"] });
    is_refused(&app, "/v1/responses", &after, 429).await;
    is_refused(&app, "/v1/responses", &json!({ "model": core, "input": "hello" }), 429).await;
    let found = json!({ "model": "pes", "input": edited["messages"] });
    is_refused(&app, "/v1/responses", &found, 429).await;
    let unnamed = json!({ "model": core, "user": "x".repeat(1_000) });
    is_refused(&app, CHAT, &with(said("hello"), unnamed), 400).await;
}
