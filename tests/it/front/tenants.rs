//! Every route is called without a key and with a key of another tenant.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::delegate::delegated;
use crate::delegate::peer::{Dialect, Peer};
use crate::support::app::App;

/// Operations that nobody can use in this configuration, and the test that covers each.
const ELSEWHERE: [(&str, &str); 2] = [
    ("/session/oidc/{name}", "front::login::a_browser_signs_in_and_has_a_session_as_with_a_key"),
    ("/session/oidc/{name}/callback", "front::login::what_was_not_begun_here_is_not_finished"),
];

/// A tenant's lists: the path, the member with an entry's id, and the path parameter that takes it.
const LISTS: [(&str, &str, &str); 9] = [
    ("/runs", "runId", "run"),
    ("/tasks", "taskId", "task"),
    ("/schedules", "id", "schedule"),
    ("/deliveries", "deliveryId", "delivery"),
    ("/mcp-servers", "name", "name"),
    ("/webhooks", "webhookId", "webhook"),
    ("/agents", "id", "agent"),
    ("/http-tools", "name", "tool"),
    ("/keys", "keyId", "key"),
];
/// This many of them, from the first, are empty for a tenant that created nothing.
const EMPTY: usize = 5;

/// Every operation that the document lists: method and path.
pub(super) fn operations() -> Vec<(String, String)> {
    let document = pes::http::openapi();
    let paths = document["paths"].as_object().unwrap();
    let all = paths.iter().flat_map(|(path, methods)| {
        methods.as_object().unwrap().keys().map(move |method| (method.to_uppercase(), path.clone()))
    });
    all.collect()
}

pub(super) fn filled(path: &str, ids: &BTreeMap<&str, String>) -> String {
    let filled = ids.iter().fold(path.to_owned(), |path, (name, id)| path.replace(&format!("{{{name}}}"), id));
    assert!(!filled.contains('{'), "what stands for a parameter of {filled}?");
    filled
}

/// Nothing listens there.
fn agent() -> Value {
    json!({ "id": "helper", "card": "http://127.0.0.1:1/card" })
}

fn http_tool() -> Value {
    json!({ "name": "find", "description": "Finds.", "url": "https://example.com/", "inputSchema": {} })
}

fn schedule() -> Value {
    json!({ "id": "nightly", "cron": "30 2 * * *", "query": "hello" })
}

/// A body that is valid enough for the thread's tenant to be checked.
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

/// A value for each parameter of a path. Nothing has these ids.
pub(super) fn of_nobody() -> BTreeMap<&'static str, String> {
    let names = [
        "agent",
        "call",
        "delivery",
        "item",
        "key",
        "name",
        "response",
        "run",
        "schedule",
        "stream",
        "suspension",
        "task",
        "tenant",
        "thread",
        "tool",
        "webhook",
    ];
    BTreeMap::from(names.map(|name| (name, "x1".to_owned())))
}

#[tokio::test]
async fn every_route_but_the_public_ones_asks_for_a_key() {
    let app = App::with_keys().await;
    let nobody = of_nobody();
    for (method, path) in operations() {
        let mut ask = app.ask(&method, &filled(&path, &nobody));
        if let Some((media_type, body)) = body(&method, &path, &nobody) {
            ask = ask.typed(media_type, &body.to_string());
        }
        let said = ask.send().await;
        if pes::http::PUBLIC.contains(&path.as_str()) {
            // Without an issuer nobody can sign in, and none is listed.
            let is_of_issuers = ["/session/oidc/", "/.well-known/oauth"].iter().any(|begin| path.starts_with(begin));
            let status = if is_of_issuers { 404 } else { 200 };
            assert_eq!(said.status, status, "{method} {path}");
        } else if path == "/a2a/callbacks/{task}" {
            // A task's own secret is its key, and a caller without it learns nothing.
            said.problem("not_found");
        } else {
            assert_eq!(said.status, 401, "{method} {path}: {}", said.text());
            // The doors respond in the format of their wires: `a2a::envelope`, `mcp_door::endpoint`, `openai::errors`.
            if !["/a2a", "/mcp"].contains(&path.as_str()) && !path.starts_with("/v1/") {
                said.problem("unauthorized");
            }
        }
    }
}

/// The text of a member.
fn id(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_else(|| panic!("no {name} in {value:#}")).to_owned()
}

/// One of everything that a tenant can have: a value for each parameter of a path.
async fn made(app: &App, peer: &Peer) -> BTreeMap<&'static str, String> {
    let mut ids = BTreeMap::from([("thread", "t1".to_owned()), ("item", "mail".to_owned())]);
    let mut make = async |name: &'static str, path: &str, member: &str, body: Value| {
        ids.insert(name, id(&app.post(path, body).await.expect(201), member));
    };
    // It is unreachable, so that its deliveries exist during the whole test.
    let hook = json!({ "url": "http://127.0.0.1:1/", "events": ["suspension.requested"] });
    make("webhook", "/webhooks", "webhookId", hook).await;
    make("agent", "/agents", "id", json!({ "id": "helper", "card": peer.card() })).await;
    make("tool", "/http-tools", "name", http_tool()).await;
    make("schedule", "/schedules", "id", schedule()).await;
    make("key", "/keys", "keyId", json!({ "tenant": "one", "name": "made", "scopes": ["read"] })).await;
    let server = json!({ "name": "shop", "url": "https://shop.example/mcp", "enabled": false });
    make("name", "/mcp-servers", "name", server).await;

    let suspension = app.suspend("t1", "send").await;
    let run = id(&app.get("/threads/t1/runs").await.expect(200)["items"][0], "runId");
    let begun = app.observed("t1", "LLM_STREAM_START").await;
    let delivery = id(&app.get("/deliveries").await.expect(200)["items"][0], "deliveryId");
    ids.extend([
        ("suspension", id(&suspension, "suspensionId")),
        ("call", id(&suspension, "callId")),
        ("stream", id(&begun[0]["content"], "streamId")),
        ("delivery", delivery),
        ("response", format!("resp_{run}_0")),
        ("run", run),
        ("task", delegated(app, "delegating").await.1),
    ]);
    ids
}

/// The lists that contain these.
async fn lists(app: &App, ids: &BTreeMap<&str, String>) -> Vec<&'static str> {
    let mut found = Vec::new();
    for (path, member, name) in LISTS {
        let list = app.get(path).await.expect(200);
        if list["items"].as_array().unwrap().iter().any(|item| item[member] == ids[name]) {
            found.push(path);
        }
    }
    found
}

/// Their own tenant finds all of them, so that others do not is not due to wrong ids.
async fn are_there(app: &App, ids: &BTreeMap<&str, String>) {
    let own = operations().into_iter().filter(|(method, path)| method == "GET" && path.contains('{'));
    for (_, path) in own.filter(|(_, path)| !path.starts_with("/tenants/")) {
        let said = app.get(&filled(&path, ids)).await;
        let is_elsewhere = ELSEWHERE.iter().any(|(elsewhere, _)| *elsewhere == path);
        assert_eq!(said.status == 404, is_elsewhere, "{path}: {}", said.text());
    }
    assert_eq!(lists(app, ids).await, LISTS.map(|(path, ..)| path));
    // A message that is still being streamed.
    app.ask("GET", "/api/chat/delegating/stream").events().await;
}

#[tokio::test]
async fn what_belongs_to_another_tenant_is_not_there() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let app = App::with_keys_and(|config| config.egress.allow.push(peer.address.to_string())).await;
    let app = app.key("key-a-0123456789abcdef0123456789");
    let ids = made(&app, &peer).await;
    are_there(&app, &ids).await;
    let before = app.get("/threads/t1").await.expect(200);

    let app = app.key("key-b-0123456789abcdef0123456789");
    // Tenants are the operator's.
    let foreign = operations().into_iter().filter(|(_, path)| path.contains('{') && !path.starts_with("/tenants/"));
    let foreign = foreign.filter(|(_, path)| !path.ends_with("/process"));
    for (method, path) in foreign {
        let mut ask = app.ask(&method, &filled(&path, &ids)).header("if-match", "*");
        if let Some((media_type, body)) = body(&method, &path, &ids) {
            ask = ask.typed(media_type, &body.to_string());
        }
        let said = ask.send().await;
        // An unknown chat has not started.
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
    assert_eq!(app.get("/api/chat/delegating/stream").await.status, 204);
    assert_eq!(lists(&app, &ids).await, Vec::<&str>::new());
    for (path, ..) in &LISTS[..EMPTY] {
        assert_eq!(app.get(path).await.expect(200)["items"], json!([]), "{path}");
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
