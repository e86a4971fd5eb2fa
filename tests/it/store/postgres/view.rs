//! The SQL view of the state shows the same as the API.

use std::sync::Arc;

use pes::store::Store;
use serde_json::{Value, json};

use super::process;
use crate::support::app::App;
use crate::support::demo;
use crate::support::postgres::Database;

const SCRIPT: &str = include_str!("view.toml");

async fn assert_same(app: &App, database: &Database) -> Value {
    let told = app.get("/threads/t/state").await.expect(200);
    let mut connection = database.connect().await;
    let select = "SELECT state FROM pes_agent_state_data WHERE thread_id = 't'";
    let seen: Value = sqlx::query_scalar(select).fetch_one(&mut connection).await.unwrap();
    assert_eq!(seen, told, "seen:\n{seen:#}\ntold:\n{told:#}");
    told
}

#[tokio::test]
async fn the_view_shows_the_state_that_the_api_answers() {
    let database = Database::fresh().await;
    let store = Arc::new(process(&database).await);
    let app = App::of(store, |config| config.models.demo.script = Some(demo::file(SCRIPT))).await;

    let gated = json!({ "threadId": "t", "config": { "toolPolicy": { "current_time": "ask" } } });
    app.post("/threads", gated).await.expect(201);
    assert_eq!(assert_same(&app, &database).await["todoList"], json!([]));

    let suspension = app.suspend("t", "look").await;
    let suspended = assert_same(&app, &database).await;
    assert_eq!(suspended["suspension"]["partialToolResults"].as_array().map(Vec::len), Some(2), "{suspended:#}");
    assert_eq!(suspended["currentStepId"], "second");

    let answer = json!({ "suspensionId": suspension["suspensionId"], "approved": true });
    let ask = app.ask("POST", "/threads/t/resume").header("prefer", "wait=30").json(&answer);
    ask.send().await.expect(200);
    let done = assert_same(&app, &database).await;
    assert_eq!(done["stepOutputs"].as_object().map(|outputs| outputs.len()), Some(3), "{done:#}");
}

#[tokio::test]
async fn a_character_that_jsonb_refuses_does_not_hide_a_thread() {
    let database = Database::fresh().await;
    process(&database).await.close().await;
    let mut connection = database.connect().await;
    for (stored, shown) in
        [(r#""a\u0000\u0000b""#, "a\u{fffd}\u{fffd}b"), (r#""\\u0000\\\u0000""#, "\\u0000\\\u{fffd}")]
    {
        let seen: Value =
            sqlx::query_scalar("SELECT pes_json($1)").bind(stored).fetch_one(&mut connection).await.unwrap();
        assert_eq!(seen, shown);
    }
    let none: Option<Value> =
        sqlx::query_scalar("SELECT pes_json('no JSON')").fetch_one(&mut connection).await.unwrap();
    assert_eq!(none, None);
}
