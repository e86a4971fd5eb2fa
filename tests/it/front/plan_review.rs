//! `executionConfig.planReview`, and `/threads/{thread}/plan/forecast`.

use std::sync::Arc;

use pes::domain::usage::Price;
use pes::store::Store;
use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::http::Said;
use crate::support::postgres::Database;
use crate::support::store::{fresh_store, store_on};

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

/// The question outlives the process that asked it; approving the plan does not approve its calls.
async fn a_plan_waits_for_a_person(store: Arc<dyn Store>) {
    let app = App::of(store.clone(), |_| {}).await;
    let question = reviewed(&app, "risky").await;
    assert_eq!(question["kind"], "plan_review", "{question:#}");
    let plan = &question["plan"];
    assert_eq!(plan["risky"], true, "{plan:#}");
    assert!(plan["items"].as_array().unwrap().iter().all(|item| item["status"] == "pending"), "{plan:#}");
    let email = plan["tools"].as_array().unwrap().iter().find(|tool| tool["toolName"] == "demo_send_email").unwrap();
    assert_eq!((&email["class"], &email["policy"]["action"]), (&json!("irreversible"), &json!("ask")));
    let mut forecast = app.get("/threads/t1/plan/forecast").await.expect(200);
    forecast.as_object_mut().unwrap().remove("cost").expect("what it may cost");
    assert_eq!(&forecast, plan);
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
    let store = store_on(&database).await;
    a_plan_waits_for_a_person(store).await;
}

#[tokio::test]
async fn a_plan_that_is_rejected_does_not_run() {
    let app = App::start().await;
    let question = reviewed(&app, "always").await;
    let ended = answer(&app, &question, json!({ "approved": false })).await.expect(200);
    assert_eq!(ended["metadata"]["error"]["code"], "plan_rejected", "{ended:#}");
    let calls = app.observed("t1", "TOOL_EXECUTION").await;
    assert!(calls.is_empty(), "{calls:#?}");
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

/// A plan's forecast comes from items of the same model, and never exceeds the rest of the run's budget.
async fn the_cost_names_its_basis(store: Arc<dyn Store>) {
    let price = Price { input_per_million: 1_000.0, output_per_million: 1_000.0, ..Price::default() };
    let app = App::of(store, |config| config.prices.extend([("demo:*".to_owned(), price)])).await;
    let options = json!({ "budget": { "maxCostUsd": 50.0 }, "executionConfig": { "planReview": "always" } });
    let ask = app.ask("POST", "/threads/t1/process").header("prefer", "wait=30");
    let asked = ask.json(&json!({ "query": "send", "options": options })).send().await.expect(202);
    let forecast = async || app.get("/threads/t1/plan/forecast").await.expect(200);

    let unknown = forecast().await;
    assert_eq!(unknown["planVersion"], asked["suspensions"][0]["plan"]["planVersion"]);
    let cost = &unknown["cost"];
    assert_eq!((cost.get("lowUsd"), cost.get("highUsd")), (None, None), "nothing is guessed: {cost:#}");
    assert_eq!(cost["basis"], json!({ "days": 30, "items": 0, "calls": 0, "unpricedItems": 0 }));
    let planning = app.get("/usage?groupBy=run").await.expect(200)["items"][0]["costUsd"].as_f64().unwrap();
    assert!((cost["atMostUsd"].as_f64().unwrap() - (50.0 - planning)).abs() < 1e-6, "{cost:#}");

    app.finish("t2", "count").await;
    let items = app.get("/usage?groupBy=item&threadId=t2").await.expect(200)["items"].clone();
    let of_items: Vec<&Value> = items.as_array().unwrap().iter().filter(|row| row.get("itemId").is_some()).collect();
    let [past] = of_items.as_slice() else { panic!("{items:#}") };
    let known = forecast().await;
    let cost = &known["cost"];
    assert_eq!((&cost["provider"], &cost["model"]), (&json!("demo"), &json!("demo-scripted")));
    assert_eq!(cost["basis"], json!({ "days": 30, "items": 1, "calls": past["calls"], "unpricedItems": 0 }));
    let left = known["items"].as_array().unwrap().len();
    assert_eq!(cost["items"], json!(left));
    let expected = past["costUsd"].as_f64().unwrap() * left as f64;
    for bound in ["lowUsd", "highUsd"] {
        assert!(
            (cost[bound].as_f64().unwrap() - expected).abs() < 1e-6,
            "{bound} of {cost:#}, {expected} from {past:#}"
        );
    }
}

#[tokio::test]
async fn what_a_plan_may_cost_names_its_basis() {
    the_cost_names_its_basis(fresh_store().await).await;
}

#[tokio::test]
async fn what_a_plan_may_cost_names_its_basis_on_postgresql() {
    let database = Database::fresh().await;
    let store = store_on(&database).await;
    the_cost_names_its_basis(store).await;
}

/// The answer adds money but no calls, so the run asks again.
#[tokio::test]
async fn what_a_plan_may_cost_includes_what_a_person_added_to_the_budget() {
    let price = Price { input_per_million: 1_000.0, output_per_million: 1_000.0, ..Price::default() };
    let app = App::with(|config| config.prices.extend([("demo:*".to_owned(), price)])).await;
    let budget = json!({ "maxCostUsd": 50.0, "maxLlmCalls": 1 });
    let options = json!({ "budget": budget, "executionConfig": { "onBudget": "ask" } });
    let ask = app.ask("POST", "/threads/t1/process").header("prefer", "wait=30");
    let asked = ask.json(&json!({ "query": "send", "options": options })).send().await.expect(202);
    let planning = app.get("/usage?groupBy=run").await.expect(200)["items"][0]["costUsd"].as_f64().unwrap();
    let left = async || app.get("/threads/t1/plan/forecast").await.expect(200)["cost"]["atMostUsd"].as_f64().unwrap();
    assert!((left().await - (50.0 - planning)).abs() < 1e-6);
    let more = json!({ "approved": true, "value": { "maxCostUsd": 5.0 } });
    let again = answer(&app, &asked["suspensions"][0], more).await.expect(202);
    assert_eq!(again["suspensions"][0]["kind"], "budget", "{again:#}");
    assert!((left().await - (55.0 - planning)).abs() < 1e-6);
}
