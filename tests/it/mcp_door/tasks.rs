//! The extension for tasks: `ask` returns a task, which the client polls at any replica.

use serde_json::{Value, json};

use super::host::{NEW, OLD, text};
use crate::support::app::App;
use crate::support::postgres::Database;
use crate::support::store::{fresh_store, store_on};

const TASKS: &str = "io.modelcontextprotocol/tasks";

/// The response to a client that supports tasks and can show forms to people.
async fn say(app: &App, method: &str, params: Value) -> Value {
    NEW.say(app, method, known(params)).await
}

fn known(mut params: Value) -> Value {
    let capabilities = json!({ "elicitation": { "form": {} }, "extensions": { TASKS: {} } });
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    params
}

async fn asked(app: &App, query: &str) -> Value {
    let task =
        say(app, "tools/call", json!({ "name": "ask", "arguments": { "query": query } })).await["result"].clone();
    assert_eq!(
        (&task["resultType"], &task["status"], &task["ttlMs"]),
        (&json!("task"), &json!("working"), &Value::Null)
    );
    assert!(task["createdAt"].as_str().unwrap().ends_with('Z') && task["pollIntervalMs"] == 1000, "{task:#}");
    task["taskId"].clone()
}

async fn got(app: &App, task: &Value) -> Value {
    say(app, "tasks/get", json!({ "taskId": task })).await["result"].clone()
}

/// The task once its run has this status.
async fn stands(app: &App, task: &Value, status: &str) -> Value {
    let id = task.as_str().unwrap();
    let thread = app.get(&format!("/runs/{id}")).await.expect(200)["threadId"].clone();
    let path = format!("/threads/{}/events?until={id}", thread.as_str().unwrap());
    let mut events = app.ask("GET", &path).header("accept", "text/event-stream").events().await;
    loop {
        let found = got(app, task).await;
        assert_eq!((&found["taskId"], &found["resultType"]), (task, &json!("complete")), "{found:#}");
        if found["status"] == status {
            return found;
        }
        assert_eq!(found["status"], "working", "{found:#}");
        events.next().await;
    }
}

#[tokio::test]
async fn a_task_ends_with_the_result_of_the_call() {
    let app = App::start().await;
    let task = asked(&app, "count").await;
    let done = stands(&app, &task, "completed").await;
    assert_eq!((text(&done["result"]), &done["result"]["isError"]), ("Two and two are four.", &json!(false)));
    assert_eq!(done["result"]["structuredContent"]["runId"], task);
    let failed = stands(&app, &asked(&app, "fail").await, "completed").await;
    assert_eq!(failed["result"]["isError"], true);
}

#[tokio::test]
async fn a_task_asks_and_is_answered() {
    let app = App::start().await;
    let task = asked(&app, "send").await;
    let waits = stands(&app, &task, "input_required").await;
    let requests = waits["inputRequests"].as_object().unwrap();
    let (name, request) = requests.iter().next().unwrap();
    assert_eq!((requests.len(), &request["method"]), (1, &json!("elicitation/create")));
    assert!(request["params"]["message"].as_str().unwrap().contains("a@example.com"));
    let update = |name: &str, response: Value| {
        say(&app, "tasks/update", json!({ "taskId": task, "inputResponses": { name: response } }))
    };
    let yes = json!({ "action": "accept", "content": { "approved": true } });
    // An answer to a question other than the one shown is ignored.
    let question = app.get("/suspensions").await.expect(200)["items"][0].clone();
    let bare = question["suspensionId"].as_str().unwrap();
    assert_eq!(*name, format!("{bare}.{}", question["digest"].as_str().unwrap()));
    for (name, response) in [(bare, yes.clone()), (name.as_str(), json!({ "action": "cancel" }))] {
        assert_eq!(update(name, response).await["result"], json!({ "resultType": "complete" }));
        assert_eq!(got(&app, &task).await["status"], "input_required");
    }
    update(name, yes.clone()).await;
    assert_eq!(text(&stands(&app, &task, "completed").await["result"]), "The mail is dealt with.");
    assert_eq!(update(name, yes).await["result"], json!({ "resultType": "complete" }), "again changes nothing");
}

#[tokio::test]
async fn a_task_is_cancelled() {
    let app = App::start().await;
    let task = asked(&app, "hang").await;
    for _ in 0..2 {
        let ack = say(&app, "tasks/cancel", json!({ "taskId": task })).await;
        assert_eq!(ack["result"], json!({ "resultType": "complete" }));
        assert_eq!(got(&app, &task).await["status"], "cancelled");
    }
    let done = asked(&app, "hello").await;
    stands(&app, &done, "completed").await;
    say(&app, "tasks/cancel", json!({ "taskId": done })).await;
    assert_eq!(got(&app, &done).await["status"], "completed");
}

/// A client must name the task in a header, too. Not every one does, and none is turned away for that.
#[tokio::test]
async fn a_header_may_leave_out_the_task_but_not_name_another() {
    let app = App::start().await;
    let task = asked(&app, "count").await;
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let mut params = known(json!({ "taskId": task, "inputResponses": {} }));
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(NEW.0);
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        let ask = || app.ask("POST", "/mcp").header("mcp-protocol-version", NEW.0).header("mcp-method", method);
        let said = ask().json(&body).send().await.expect(200);
        assert!(said["result"].is_object(), "{method}: {said:#}");
        let other = ask().header("mcp-name", "run_1").json(&body).send().await.expect(400);
        assert_eq!(other["error"]["code"], -32020, "{method}: {other:#}");
    }
}

#[tokio::test]
async fn who_does_not_know_tasks_gets_none() {
    let app = App::start().await;
    let found = NEW.say(&app, "server/discover", json!({})).await["result"].clone();
    assert_eq!(found["capabilities"]["extensions"], json!({ TASKS: {} }));
    let plain = NEW.call(&app, "ask", json!({ "query": "hello" })).await;
    assert_eq!((text(&plain), &plain["resultType"]), ("Hello there.", &json!("complete")));
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let refused = NEW.request(&app, method, json!({ "taskId": "run_1" })).send().await.expect(400);
        assert_eq!(refused["error"]["code"], -32021, "{refused:#}");
        assert_eq!(refused["error"]["data"]["requiredCapabilities"], json!({ "extensions": { TASKS: {} } }));
        let unknown = say(&app, method, json!({ "taskId": "run_none" })).await;
        assert_eq!(unknown["error"]["code"], -32602, "{unknown:#}");
        let older = OLD.say(&app, method, json!({ "taskId": "run_none" })).await;
        assert_eq!(older["error"]["code"], -32601, "{older:#}");
    }
    let wrong = say(&app, "tasks/get", json!({ "task": "run_1" })).await;
    assert_eq!(wrong["error"]["code"], -32602, "{wrong:#}");
}

#[tokio::test]
async fn a_key_that_may_not_approve_is_shown_where_to_answer() {
    let key = "writer-0123456789abcdef0123456789";
    let app = App::with(|config| {
        config.server.public_url = Some("https://pes.example".to_owned());
        let admin = "default/admin:admin:key-a-0123456789abcdef0123456789";
        config.auth.keys = vec![format!("default/writer:read+run:{key}").parse().unwrap(), admin.parse().unwrap()];
    });
    let app = app.await.key(key);
    let task = asked(&app, "send").await;
    app.asked(app.get(&format!("/runs/{}", task.as_str().unwrap())).await.expect(200)["threadId"].as_str().unwrap())
        .await;
    let found = got(&app, &task).await;
    assert_eq!((&found["status"], found.get("inputRequests")), (&json!("working"), None));
    let said = found["statusMessage"].as_str().unwrap();
    assert!(said.contains("https://pes.example/#/questions/sus_"), "{said}");
    let answer = json!({ "taskId": task, "inputResponses": {} });
    let refused = NEW.request(&app, "tasks/update", known(answer)).send().await.expect(403);
    assert_eq!(refused["error"]["data"]["code"], "forbidden");
}

#[tokio::test]
async fn a_task_is_told_and_cancelled_by_keys_that_may() {
    let key = |name: &str, scopes: &str| format!("default/{name}:{scopes}:{name}-0123456789abcdef0123456789");
    let keys = [key("runner", "run"), key("reader", "read")];
    let app = App::with(|config| config.auth.keys = keys.iter().map(|key| key.parse().unwrap()).collect()).await;
    let app = app.key("runner-0123456789abcdef0123456789");
    let task = asked(&app, "hang").await;
    let refused = async |app: &App, method: &str| {
        let said = NEW.request(app, method, known(json!({ "taskId": task }))).send().await.expect(403);
        assert_eq!(said["error"]["data"]["code"], "forbidden", "{method}");
    };
    refused(&app, "tasks/get").await;
    let app = app.key("reader-0123456789abcdef0123456789");
    refused(&app, "tasks/cancel").await;
    assert_eq!(got(&app, &task).await["status"], "working");
}

#[tokio::test]
async fn a_task_outlives_the_process_and_is_known_at_any_replica() {
    let store = fresh_store().await;
    let first = App::of(store.clone(), |_| {}).await;
    let task = asked(&first, "send").await;
    stands(&first, &task, "input_required").await;
    first.stopped().await;
    let second = App::of(store, |_| {}).await;
    assert_eq!(got(&second, &task).await["status"], "input_required");

    let database = Database::fresh().await;
    let replica = async || {
        let store = store_on(&database).await;
        App::of(store, |config| config.runtime.lease_ms = 600_000).await
    };
    let (owner, other) = (replica().await, replica().await);
    let task = asked(&owner, "hang").await;
    assert_eq!(got(&other, &task).await["status"], "working");
    say(&other, "tasks/cancel", json!({ "taskId": task })).await;
    assert_eq!(got(&owner, &task).await["status"], "cancelled");
}
