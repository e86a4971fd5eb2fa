//! Every route, without a key and with a stranger's.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::app::App;

/// Every operation that the document lists: method and path.
fn operations() -> Vec<(String, String)> {
    let document = pes::http::openapi();
    let paths = document["paths"].as_object().unwrap();
    let all = paths.iter().flat_map(|(path, methods)| {
        methods.as_object().unwrap().keys().map(move |method| (method.to_uppercase(), path.clone()))
    });
    all.collect()
}

fn filled(path: &str, ids: &BTreeMap<&str, String>) -> String {
    ids.iter().fold(path.to_owned(), |path, (name, id)| path.replace(&format!("{{{name}}}"), id))
}

/// Nobody listens there.
fn agent() -> Value {
    json!({ "id": "helper", "card": "http://127.0.0.1:1/card" })
}

fn http_tool() -> Value {
    json!({ "name": "find", "description": "Finds.", "url": "https://example.com/", "inputSchema": {} })
}

fn schedule() -> Value {
    json!({ "id": "nightly", "cron": "30 2 * * *", "query": "hello" })
}

/// A body that is good enough to get to the question whose thread it is.
fn body(method: &str, path: &str, ids: &BTreeMap<&str, String>) -> Option<(&'static str, Value)> {
    let json = |value| Some(("application/json", value));
    match (method, path) {
        ("POST", "/threads/{thread}/resume") => json(json!({ "suspensionId": ids["suspension"], "approved": true })),
        ("PUT", "/webhooks/{webhook}") => json(json!({ "url": "https://example.com/", "events": ["run.failed"] })),
        ("PUT", "/http-tools/{tool}") => json(http_tool()),
        ("PUT", "/schedules/{schedule}") => json(schedule()),
        ("PATCH", "/schedules/{schedule}") => Some(("application/merge-patch+json", json!({ "paused": true }))),
        ("PUT", "/agents/{agent}") => json(agent()),
        ("PATCH", "/agents/{agent}") => Some(("application/merge-patch+json", json!({ "dedupes": true }))),
        ("PUT", "/threads/{thread}/retention") => json(json!({ "logDays": 7 })),
        ("PUT", "/threads/{thread}/agent-state") => json(json!({ "data": {} })),
        ("PATCH", "/threads/{thread}") => Some(("application/merge-patch+json", json!({ "title": "mine" }))),
        ("PATCH", "/threads/{thread}/plan") | ("POST", "/threads/{thread}/plan/forecast") => {
            Some(("application/json-patch+json", json!([])))
        }
        ("PATCH", "/mcp-servers/{name}") => json(json!({ "enabled": false })),
        ("POST", "/mcp-servers") => json(json!({ "name": "shop", "url": "https://shop.example/mcp" })),
        ("POST", _) => json(json!({})),
        _ => None,
    }
}

#[tokio::test]
async fn every_route_but_the_public_ones_asks_for_a_key() {
    let app = App::with_keys().await;
    let nobody = BTreeMap::from(
        [
            "thread",
            "run",
            "call",
            "task",
            "key",
            "suspension",
            "name",
            "tool",
            "agent",
            "item",
            "response",
            "schedule",
            "stream",
        ]
        .map(|name| (name, "x1".to_owned())),
    );
    for (method, path) in operations() {
        let mut ask = app.ask(&method, &filled(&path, &nobody));
        if let Some((media_type, body)) = body(&method, &path, &nobody) {
            ask = ask.typed(media_type, &body.to_string());
        }
        let said = ask.send().await;
        if pes::http::PUBLIC.contains(&path.as_str()) {
            // Where there is no issuer nobody signs in at one, or is told of one.
            let is_of_issuers = ["/session/oidc/", "/.well-known/oauth"].iter().any(|begin| path.starts_with(begin));
            let status = if is_of_issuers { 404 } else { 200 };
            assert_eq!(said.status, status, "{method} {path}");
        } else if path == "/a2a/callbacks/{task}" {
            // A task's own secret is its key, and whoever has none learns nothing.
            said.problem("not_found");
        } else {
            assert_eq!(said.status, 401, "{method} {path}: {}", said.text());
            // The doors say it in the words of their wires: `a2a::envelope`, `mcp_door::envelope`, `openai::errors`.
            if !["/a2a", "/mcp"].contains(&path.as_str()) && !path.starts_with("/v1/") {
                said.problem("unauthorized");
            }
        }
    }
}

#[tokio::test]
async fn what_belongs_to_another_tenant_is_not_there() {
    let app = App::with_keys().await.key("key-a-0123456789abcdef0123456789");
    let suspension = app.suspend("t1", "send").await;
    let id = |value: &Value| value.as_str().unwrap().to_owned();
    let run = &app.get("/threads/t1/runs").await.expect(200)["items"][0]["runId"];
    let begun = app.get("/threads/t1/events?types=LLM_STREAM_START").await.expect(200);
    let stream = &begun["items"][0]["content"]["streamId"];
    let mut ids = BTreeMap::from([
        ("delivery", "dlv_1".to_owned()),
        ("thread", "t1".to_owned()),
        ("run", id(run)),
        ("response", format!("resp_{}_0", id(run))),
        ("call", id(&suspension["callId"])),
        ("suspension", id(&suspension["suspensionId"])),
        ("task", "task_1".to_owned()),
        ("item", "mail".to_owned()),
        ("key", "key_1".to_owned()),
        ("name", "shop".to_owned()),
        ("tool", "price".to_owned()),
        ("stream", id(stream)),
    ]);
    let hook = app.post("/webhooks", json!({ "url": "https://example.com/", "events": ["run.failed"] })).await;
    ids.insert("webhook", id(&hook.expect(201)["webhookId"]));
    ids.insert("agent", id(&app.post("/agents", agent()).await.expect(201)["id"]));
    ids.insert("tool", id(&app.post("/http-tools", http_tool()).await.expect(201)["name"]));
    ids.insert("schedule", id(&app.post("/schedules", schedule()).await.expect(201)["id"]));
    let before = app.get("/threads/t1").await.expect(200);

    let app = app.key("key-b-0123456789abcdef0123456789");
    let foreign = operations().into_iter().filter(|(_, path)| path.contains('{') && !path.ends_with("/process"));
    for (method, path) in foreign {
        let mut ask = app.ask(&method, &filled(&path, &ids)).header("if-match", "*");
        if let Some((media_type, body)) = body(&method, &path, &ids) {
            ask = ask.typed(media_type, &body.to_string());
        }
        let said = ask.send().await;
        // A chat that is not there has not begun.
        if method == "GET" && path.starts_with("/api/chat/") {
            let is_empty = said.status == 204 || said.expect(200)["messages"] == json!([]);
            assert!(is_empty, "{method} {path}: {}", said.text());
            continue;
        }
        assert_eq!(said.status, 404, "{method} {path}: {}", said.text());
        if path.starts_with("/v1/") {
            assert_eq!(said.json()["error"]["code"], "not_found", "{method} {path}");
        } else {
            said.problem("not_found");
        }
    }
    let (status, _) = app.try_socket("/threads/t1/events", &[]).await.err().unwrap();
    assert_eq!(status, 404);
    assert_eq!(app.get("/threads").await.expect(200)["items"], json!([]));
    assert_eq!(app.get("/suspensions").await.expect(200)["items"], json!([]));
    app.post("/threads/t2/process", json!({ "query": "hello" })).await.expect(202);
    let until = format!("/threads/t2/events?until={}", ids["run"]);
    app.ask("GET", &until).header("accept", "text/event-stream").send().await.problem("not_found");
    let body = json!({ "suspensionId": ids["suspension"], "approved": true });
    app.post("/threads/t2/resume", body).await.problem("not_found");

    // The same id is another thread here.
    let mine = app.finish("t1", "hello").await;
    assert_eq!(mine["response"]["content"], "Hello there.");
    let app = app.key("key-a-0123456789abcdef0123456789");
    assert_eq!(app.get("/threads/t1").await.expect(200), before, "nothing of the first one's has changed");
}
