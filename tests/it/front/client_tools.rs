//! Tools that the caller executes itself.

use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::http::Said;
use crate::support::store::fresh_store;

fn tool(name: &str) -> Value {
    json!({
        "name": name,
        "description": "Where the user is.",
        "inputSchema": { "type": "object", "properties": { "precision": { "enum": ["city", "street"] } } },
    })
}

async fn process(app: &App, tools: &[Value]) -> Said {
    let ask = app.ask("POST", "/threads/t/process").header("prefer", "wait=30");
    ask.json(&json!({ "query": "locate", "options": { "clientTools": tools } })).send().await
}

async fn resume(app: &App, mut body: Value, suspension: &Value) -> Said {
    body["suspensionId"] = suspension["suspensionId"].clone();
    app.ask("POST", "/threads/t/resume").header("prefer", "wait=30").json(&body).send().await
}

/// The open questions, in the order of the calls.
async fn open(app: &App) -> Vec<Value> {
    let mut open = app.get("/suspensions").await.expect(200)["items"].as_array().unwrap().clone();
    // Each start has a port of its own.
    open.iter_mut().for_each(|one| _ = one.as_object_mut().unwrap().remove("url"));
    open
}

/// The tools that the thread's active run may call, or its next one.
async fn offered(app: &App) -> Vec<String> {
    let tools = app.get("/tools?threadId=t").await.expect(200);
    tools["items"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

async fn results(app: &App) -> Vec<Value> {
    app.observed("t", "TOOL_EXECUTION").await.iter().map(|item| item["content"].clone()).collect()
}

#[tokio::test]
async fn calls_are_answered_in_any_order_beside_one_that_a_person_gates() {
    let app = App::start().await;
    let receipt = process(&app, &[tool("get_location")]).await.expect(202);
    assert_eq!(receipt["status"], "suspended", "{receipt:#}");
    let asked = open(&app).await;
    let kinds: Vec<&Value> = asked.iter().map(|open| &open["kind"]).collect();
    assert_eq!(kinds, ["client_tool", "approval", "client_tool"], "{asked:#?}");
    assert_eq!(
        (&asked[0]["toolName"], &asked[0]["toolInput"]),
        (&json!("get_location"), &json!({ "precision": "city" }))
    );
    resume(&app, json!({}), &asked[2]).await.problem("invalid");
    let street = json!({ "value": { "street": "Hill" } });
    assert_eq!(resume(&app, street, &asked[2]).await.expect(202)["status"], "suspended");
    assert_eq!(resume(&app, json!({ "approved": true }), &asked[1]).await.expect(202)["status"], "suspended");
    let mut socket = app.socket("/threads/t/events?after=latest").await;
    let id = &asked[0]["suspensionId"];
    socket.say(json!({ "op": "resume", "id": "r", "suspensionId": id, "value": "Rome" })).await;
    assert_eq!(socket.answer("r").await["event"], "ack");
    let run = app.get(&format!("/runs/{}?wait=20", receipt["runId"].as_str().unwrap())).await.expect(200);
    assert_eq!(run["result"]["metadata"]["status"], "success", "{run:#}");
    let results = results(&app).await;
    let outputs: Vec<&Value> = results.iter().map(|result| &result["output"]).collect();
    assert_eq!(outputs[0], &json!({ "street": "Hill" }));
    assert_eq!((&outputs[1]["sent"], outputs[2]), (&json!(true), &json!("Rome")));
    resume(&app, json!({ "value": 1 }), &asked[0]).await.problem("already_resolved");
}

#[tokio::test]
async fn a_caller_may_say_that_it_could_not() {
    let app = App::start().await;
    process(&app, &[tool("get_location")]).await.expect(202);
    let asked = open(&app).await;
    resume(&app, json!({ "approved": false, "reason": "no satellite" }), &asked[0]).await.expect(202);
    let result = results(&app).await.remove(0);
    assert_eq!(result["status"], "error");
    assert!(result["error"]["message"].as_str().unwrap().contains("no satellite"), "{result:#}");
}

#[tokio::test]
async fn policy_may_ask_before_the_caller_is() {
    let app = App::start().await;
    let config = json!({ "threadId": "t", "config": { "toolPolicy": { "get_*": "ask", "demo_*": "deny" } } });
    app.post("/threads", config).await.expect(201);
    process(&app, &[tool("get_location")]).await.expect(202);
    let asked = open(&app).await;
    assert_eq!(asked.iter().map(|open| &open["kind"]).collect::<Vec<_>>(), ["approval", "approval"]);
    resume(&app, json!({ "approved": true }), &asked[0]).await.expect(202);
    let asked = open(&app).await;
    let asked = asked.iter().find(|open| open["kind"] == "client_tool").expect("now the caller is asked");
    assert_eq!(asked["toolInput"], json!({ "precision": "city" }));
    resume(&app, json!({ "value": "Rome" }), asked).await.expect(202);
    assert!(results(&app).await.iter().any(|result| result["output"] == "Rome"));
}

#[tokio::test]
async fn what_the_caller_is_to_do_may_be_edited_first() {
    let app = App::start().await;
    let config = json!({ "threadId": "t", "config": { "toolPolicy": { "get_*": "ask" } } });
    app.post("/threads", config).await.expect(201);
    process(&app, &[tool("get_location")]).await.expect(202);
    let asked = open(&app).await;
    let edited = |precision: &str| json!({ "approved": true, "modifiedArgs": { "precision": precision } });
    let problem = resume(&app, edited("inch"), &asked[0]).await.problem("invalid");
    assert_eq!(problem["errors"][0]["pointer"], "/modifiedArgs/precision", "{problem:#}");
    resume(&app, edited("street"), &asked[0]).await.expect(202);
    let asked = open(&app).await;
    let asked = asked.iter().find(|open| open["kind"] == "client_tool").expect("now the caller is asked");
    assert_eq!(asked["toolInput"], json!({ "precision": "street" }));
}

#[tokio::test]
async fn a_tool_that_hides_another_or_cannot_be_used_is_refused() {
    let app = App::start().await;
    let broken = json!({ "name": "x", "inputSchema": { "type": "nonsense" } });
    let table = [
        (vec![tool("calculator")], "/options/clientTools/0/name"),
        (vec![tool("a"), tool("a")], "/options/clientTools/1/name"),
        (vec![tool("with space")], "/options/clientTools/0/name"),
        (vec![broken], "/options/clientTools/0/inputSchema/type"),
    ];
    for (tools, pointer) in table {
        let problem = process(&app, &tools).await.problem("invalid");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem:#}");
    }
    app.get("/threads/t").await.problem("not_found");
}

#[tokio::test]
async fn a_call_waits_for_its_caller_across_a_restart() {
    let store = fresh_store().await;
    let app = App::of(store.clone(), |_| {}).await;
    process(&app, &[tool("get_location")]).await.expect(202);
    let asked = open(&app).await;
    app.stopped().await;
    let app = App::of(store, |_| {}).await;
    assert_eq!(open(&app).await, asked);
    for (open, answer) in asked.iter().zip([json!({ "value": 1 }), json!({ "approved": false }), json!({ "value": 3 })])
    {
        resume(&app, answer, open).await;
    }
    let outputs: Vec<Value> = results(&app).await.iter().map(|result| result["output"].clone()).collect();
    assert_eq!((&outputs[0], &outputs[2]), (&json!(1), &json!(3)), "{outputs:?}");
}

#[tokio::test]
async fn they_are_listed_among_the_tools_of_the_thread_while_their_run_lasts() {
    let app = App::start().await;
    let config = json!({ "enabledTools": ["calculator"] });
    app.post("/threads", json!({ "threadId": "t", "config": config })).await.expect(201);
    assert_eq!(offered(&app).await, ["calculator"]);
    process(&app, &[tool("get_location")]).await.expect(202);
    assert_eq!(offered(&app).await, ["calculator", "get_location"]);
    assert!(!app.get("/tools").await.expect(200).to_string().contains("get_location"));
    app.post("/threads/t/cancel", json!({})).await.expect(202);
    assert_eq!(offered(&app).await, ["calculator"]);
    app.get("/tools?threadId=none").await.problem("not_found");
    app.get("/tools?thread=t").await.problem("invalid");
}
