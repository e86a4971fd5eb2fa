//! `executionConfig.planReview`, and `/threads/{thread}/plan/forecast`.

use std::sync::Arc;

use pes::store::Store;
use pes::store::postgres::Postgres;
use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::http::Said;
use crate::support::postgres::Database;
use crate::support::store::fresh_store;

/// A run on `t1` whose plans are reviewed: the question.
async fn reviewed(app: &App, when: &str) -> Value {
    let config = json!({ "threadId": "t1", "config": { "executionConfig": { "planReview": when } } });
    app.post("/threads", config).await.expect(201);
    let ask = app.ask("POST", "/threads/t1/process").header("prefer", "wait=30").json(&json!({ "query": "send" }));
    let receipt = ask.send().await.expect(202);
    assert_eq!(receipt["status"], "suspended", "{receipt:#}");
    receipt["suspensions"][0].clone()
}

async fn answer(app: &App, question: &Value, mut answer: Value) -> Said {
    answer["suspensionId"] = question["suspensionId"].clone();
    app.ask("POST", "/threads/t1/resume").header("prefer", "wait=30").json(&answer).send().await
}

async fn questions(app: &App) -> Vec<Value> {
    app.get("/suspensions").await.expect(200)["items"].as_array().unwrap().clone()
}

/// The question outlives the process that asked it; a yes to the plan is none to its calls.
async fn a_plan_waits_for_a_person(store: Arc<dyn Store>) {
    let app = App::of(store.clone(), |_| {}).await;
    let question = reviewed(&app, "risky").await;
    assert_eq!(question["kind"], "plan_review", "{question:#}");
    let plan = &question["plan"];
    assert_eq!(plan["risky"], true, "{plan:#}");
    assert!(plan["items"].as_array().unwrap().iter().all(|item| item["status"] == "pending"), "{plan:#}");
    let email = plan["tools"].as_array().unwrap().iter().find(|tool| tool["toolName"] == "demo_send_email").unwrap();
    assert_eq!((&email["class"], &email["policy"]["action"]), (&json!("irreversible"), &json!("ask")));
    assert_eq!(&app.get("/threads/t1/plan/forecast").await.expect(200), plan);
    app.stopped().await;
    let app = App::of(store, |_| {}).await;
    assert_eq!(questions(&app).await[0]["plan"], question["plan"]);
    let resumed = answer(&app, &question, json!({ "approved": true })).await.expect(202);
    assert_eq!(resumed["suspensions"][0]["kind"], "approval", "{resumed:#}");
    let ended = answer(&app, &resumed["suspensions"][0], json!({ "approved": true })).await.expect(200);
    assert_eq!(ended["metadata"]["status"], "success", "{ended:#}");
}

#[tokio::test]
async fn a_plan_is_shown_before_it_runs_and_waits_across_a_restart() {
    a_plan_waits_for_a_person(fresh_store().await).await;
}

#[tokio::test]
async fn a_plan_is_shown_before_it_runs_and_waits_across_a_restart_on_postgresql() {
    let database = Database::fresh().await;
    let store = Postgres::open(&database.url().into(), 4).await.unwrap();
    a_plan_waits_for_a_person(Arc::new(store)).await;
}

#[tokio::test]
async fn a_plan_that_is_rejected_does_not_run() {
    let app = App::start().await;
    let question = reviewed(&app, "always").await;
    let ended = answer(&app, &question, json!({ "approved": false })).await.expect(200);
    assert_eq!(ended["metadata"]["error"]["code"], "plan_rejected", "{ended:#}");
    let calls = app.get("/threads/t1/events?types=TOOL_EXECUTION").await.expect(200);
    assert_eq!(calls["items"], json!([]));
}

#[tokio::test]
async fn a_core_without_plans_takes_no_review() {
    let app = App::start().await;
    let config = json!({ "threadId": "t1", "config": { "agentCore": "react" } });
    app.post("/threads", config).await.expect(201);
    let options = json!({ "executionConfig": { "planReview": "always" } });
    let problem = app.post("/threads/t1/process", json!({ "query": "send", "options": options })).await;
    assert_eq!(problem.problem("invalid")["errors"][0]["pointer"], "/options/executionConfig/planReview");
}

#[tokio::test]
async fn an_edit_is_foreseen_without_being_made() {
    let app = App::start().await;
    reviewed(&app, "always").await;
    let plan = app.get("/threads/t1/plan").await.expect(200);
    let item = json!({ "id": "extra", "description": "Look at the clock", "requiredTools": ["current_time"] });
    let edit = json!([{ "op": "add", "path": "/-", "value": item }]);
    let ask = app.ask("POST", "/threads/t1/plan/forecast").typed("application/json-patch+json", &edit.to_string());
    let foreseen = ask.send().await.expect(200);
    let extra = foreseen["items"].as_array().unwrap().iter().find(|item| item["id"] == "extra").unwrap();
    assert_eq!(
        (&extra["mayCall"][0]["toolName"], &extra["mayCall"][0]["action"]),
        (&json!("current_time"), &json!("auto"))
    );
    assert_eq!(app.get("/threads/t1/plan").await.expect(200), plan);
}
