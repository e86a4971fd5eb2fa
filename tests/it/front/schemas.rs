//! Answers, frames and ops match the schemas in `/openapi.json`, and so do the examples of `docs/EVENTS.md`.

use std::cell::RefCell;
use std::collections::BTreeSet;

use pes::domain::state::PESAgentStateData;
use serde_json::{Value, json};

use crate::delegate::delegated;
use crate::delegate::peer::{Dialect, Peer};
use crate::support::app::App;
use crate::support::http::Said;

/// Responses that are not compared with the document here, and why.
const NOT_HELD: [(&str, &str); 14] = [
    ("/.well-known/oauth-protected-resource", "it is there only beside an issuer: `front::people`"),
    ("/.well-known/oauth-protected-resource/mcp", "it is there only beside an issuer: `front::people`"),
    ("/api/chat/{thread}/stream", "events of another wire: `ai_sdk`"),
    ("/audit/export", "lines of JSON: `front::audit`"),
    ("/docs", "a page of HTML"),
    ("/events", "events: `front::events::changes`"),
    ("/metrics", "text: `front::metrics`"),
    ("/session/oidc", "it is empty without an issuer: `front::login`"),
    ("/session/oidc/{name}", "it sends a browser elsewhere: `front::login`"),
    ("/session/oidc/{name}/callback", "it sends a browser elsewhere: `front::login`"),
    ("/sessions", "it is empty without an issuer: `front::login`"),
    ("/tenants", "it is the operator's: `front::removed_tenants`"),
    ("/tenants/{tenant}", "it is the operator's: `front::removed_tenants`"),
    ("/threads/{thread}/export", "lines of JSON: `front::transfer`"),
];

const SCHEMAS: &str = "#/components/schemas/";

/// Comes before the name of a copy that is not closed, for the schemas that extend it.
const PART: &str = "PartOf_";

/// The document's schemas, with every object closed: a member that is not described fails the test.
struct Schemas(Value);

impl Schemas {
    fn new() -> Self {
        let mut schemas = pes::http::openapi()["components"]["schemas"].take();
        let named = schemas.as_object_mut().unwrap();
        for (name, mut part) in named.clone() {
            close(&mut part, true);
            named.insert(format!("{PART}{name}"), part);
        }
        let whole = named.iter_mut().filter(|(name, _)| !name.starts_with(PART));
        whole.for_each(|(_, schema)| close(schema, false));
        Self(schemas)
    }

    #[track_caller]
    fn check(&self, schema: Value, value: &Value) {
        let mut whole = schema;
        whole["components"] = json!({ "schemas": self.0 });
        let validator = jsonschema::validator_for(&whole).unwrap();
        let wrong: Vec<String> =
            validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect();
        whole.as_object_mut().unwrap().remove("components");
        assert!(wrong.is_empty(), "{wrong:#?}\n{value:#}\nis no {whole}");
    }

    #[track_caller]
    fn named(&self, name: &str, value: &Value) {
        self.check(json!({ "$ref": format!("{SCHEMAS}{name}") }), value);
    }
}

/// Closes the objects of a schema. One that is a part of another schema has more members than its own and stays open; only
/// the objects in its members are closed.
fn close(schema: &mut Value, is_part: bool) {
    match schema {
        Value::Object(map) => {
            let is_object = map.contains_key("properties") || map.contains_key("allOf");
            for (keyword, value) in map.iter_mut() {
                match keyword.as_str() {
                    "properties" => value.as_object_mut().unwrap().values_mut().for_each(|member| close(member, false)),
                    "allOf" => close(value, true),
                    "oneOf" => close(value, is_part || is_object),
                    _ => close(value, false),
                }
            }
            if is_part && let Some(Value::String(reference)) = map.get_mut("$ref") {
                reference.insert_str(SCHEMAS.len(), PART);
            }
            if is_object && !is_part && !map.contains_key("additionalProperties") {
                map.insert("unevaluatedProperties".to_owned(), false.into());
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|entry| close(entry, is_part)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A server whose every response is compared with the document.
struct Held {
    app: App,
    document: Value,
    schemas: Schemas,
    /// Every path that was read.
    read: RefCell<BTreeSet<String>>,
}

impl Held {
    #[track_caller]
    fn check(&self, method: &str, path: &str, said: &Said) -> Value {
        let responses = &self.document["paths"][path][method]["responses"];
        let response = responses.get(said.status.to_string()).unwrap_or(&responses["default"]);
        let media_type = said.header("content-type").unwrap_or_default();
        let schema = &response["content"][media_type]["schema"];
        assert!(schema.is_object(), "{method} {path} {} {media_type}", said.status);
        let answer = said.json();
        self.schemas.check(schema.clone(), &answer);
        answer
    }

    async fn get(&self, path: &str, of: &str) -> Value {
        let said = self.app.get(path).await;
        let answer = self.check("get", of, &said);
        if said.status == 200 {
            // An empty list matches every schema of entries.
            assert_ne!(answer["items"], json!([]), "{path}");
            self.read.borrow_mut().insert(of.to_owned());
        }
        answer
    }

    async fn post(&self, path: &str, of: &str, body: Value) -> Value {
        let said = self.app.ask("POST", path).header("prefer", "wait=30").json(&body).send().await;
        self.check("post", of, &said)
    }

    async fn state(&self, query: &str) {
        let told = self.get(&format!("/threads/t1/state{query}"), "/threads/{thread}/state").await;
        let read: PESAgentStateData = serde_json::from_value(told.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), told, "nothing is left over");
    }
}

/// Creates one of everything that a tenant configures, and a key that may read it.
async fn furnished(peer: &Peer) -> App {
    let app = App::with(|config| config.egress.allow = vec!["127.0.0.1:1".to_owned(), peer.address.to_string()]).await;
    let hook = json!({ "url": "http://127.0.0.1:1/", "events": ["suspension.requested"] });
    let tool = json!({ "name": "find", "description": "Finds.", "url": "https://example.com/", "inputSchema": {} });
    let new = [
        ("/webhooks", hook),
        ("/http-tools", tool),
        ("/mcp-servers", json!({ "name": "shop", "url": "https://shop.example/mcp", "enabled": false })),
        ("/agents", json!({ "id": "helper", "card": peer.card() })),
        ("/schedules", json!({ "id": "nightly", "cron": "30 2 * * *", "query": "hello" })),
    ];
    for (path, body) in new {
        app.post(path, body).await.expect(201);
    }
    // From here on a key is needed.
    let key = json!({ "tenant": "default", "name": "boss", "scopes": ["admin"] });
    let issued = app.post("/keys", key).await.expect(201);
    app.key(issued["key"].as_str().unwrap())
}

/// A tenant's resources, in lists and one by one.
async fn what_is_configured(held: &Held) {
    for path in ["/models", "/tools", "/agents", "/policy", "/keys", "/mcp-servers", "/http-tools", "/webhooks"] {
        held.get(path, path).await;
    }
    held.get("/schedules", "/schedules").await;
    held.get("/schedules/nightly", "/schedules/{schedule}").await;
    for path in ["/", "/healthz", "/readyz", "/version", "/openapi.json", "/limits", "/whoami", "/audit/keys"] {
        held.get(path, path).await;
    }
    for path in ["/v1/models", "/agui/capabilities", "/.well-known/agent-card.json"] {
        held.get(path, path).await;
    }
    held.get("/agents/helper", "/agents/{agent}").await;
    held.get("/http-tools/find", "/http-tools/{tool}").await;
    held.get("/mcp-servers/shop", "/mcp-servers/{name}").await;
    held.get("/schedules/nightly/next", "/schedules/{schedule}/next").await;
    held.app.post("/schedules/nightly/trigger", json!({})).await.expect(202);
    held.get("/schedules/nightly/runs", "/schedules/{schedule}/runs").await;
    let hooks = held.get("/webhooks", "/webhooks").await;
    let hook = format!("/webhooks/{}", hooks["items"][0]["webhookId"].as_str().unwrap());
    held.get(&hook, "/webhooks/{webhook}").await;
    held.get(&format!("{hook}/deliveries"), "/webhooks/{webhook}/deliveries").await;
}

/// Reads a thread with one run that asked about this call, and the run's task at another agent.
async fn what_was_done(held: &Held, run: &str, call: &str) {
    held.get("/threads/t1", "/threads/{thread}").await;
    held.get(&format!("/runs/{run}"), "/runs/{run}").await;
    held.get(&format!("/v1/responses/resp_{run}_0"), "/v1/responses/{response}").await;
    held.get(&format!("/v1/responses/resp_{run}_0/input_items"), "/v1/responses/{response}/input_items").await;
    let calls = format!("/threads/t1/tool-calls/{call}");
    held.get(&calls, "/threads/{thread}/tool-calls/{call}").await;
    held.get(&format!("{calls}/receipt"), "/threads/{thread}/tool-calls/{call}/receipt").await;
    let terms = json!({ "logDays": 3, "threadDays": "forever" });
    let said = held.app.ask("PUT", "/threads/t1/retention").json(&terms).send().await;
    held.check("put", "/threads/{thread}/retention", &said);
    let lists = ["runs", "messages", "events", "plan", "audit", "agent-state", "retention", "plan/forecast"];
    for list in lists {
        held.get(&format!("/threads/t1/{list}"), &format!("/threads/{{thread}}/{list}")).await;
    }
    let begun = held.get("/threads/t1/events?types=LLM_STREAM_START", "/threads/{thread}/events").await;
    let stream = begun["items"][0]["content"]["streamId"].as_str().unwrap();
    held.get(&format!("/threads/t1/streams/{stream}"), "/threads/{thread}/streams/{stream}").await;
    held.get("/api/chat/t1", "/api/chat/{thread}").await;
    let (_, task) = delegated(&held.app, "t3").await;
    held.get("/threads/t3/tasks", "/threads/{thread}/tasks").await;
    held.get(&format!("/tasks/{task}"), "/tasks/{task}").await;
    for path in ["/threads", "/runs", "/tasks", "/usage", "/audit", "/deliveries"] {
        held.get(path, path).await;
    }
}

#[tokio::test]
async fn answers_are_what_the_document_says() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let (app, document) = (furnished(&peer).await, pes::http::openapi());
    let held = Held { app, document, schemas: Schemas::new(), read: RefCell::default() };
    let new = json!({ "threadId": "t1", "metadata": { "a": 1 }, "config": { "historyLimit": 3 } });
    held.post("/threads", "/threads", new).await;
    held.state("").await;
    let process = "/threads/{thread}/process";
    let asked = held.post("/threads/t1/process", process, json!({ "query": "send" })).await;
    let question = &asked["suspensions"][0];
    held.schemas.named("OpenQuestion", question);
    assert!(question["url"].is_string(), "{question:#}");
    held.state("").await;
    held.get("/suspensions", "/suspensions").await;
    let answer = json!({ "suspensionId": question["suspensionId"], "approved": true });
    let done = held.post("/threads/t1/resume", "/threads/{thread}/resume", answer.clone()).await;
    assert_eq!(done["metadata"]["status"], "success");
    held.post("/threads/t1/resume", "/threads/{thread}/resume", answer).await;
    held.state("").await;
    held.state("?at=12").await;
    let run = done["metadata"]["runId"].as_str().unwrap();
    held.post(&format!("/runs/{run}/cancel"), "/runs/{run}/cancel", json!({})).await;
    held.post("/threads/t1/fork", "/threads/{thread}/fork", json!({ "threadId": "t2" })).await;
    what_is_configured(&held).await;
    what_was_done(&held, run, question["callId"].as_str().unwrap()).await;
    held.get("/threads/none", "/threads/{thread}").await;
    held.get("/threads?limit=0", "/threads").await;
    held.get("/threads?limit=1000", "/threads").await;

    let paths = held.document["paths"].as_object().unwrap().iter().filter(|(_, item)| item.get("get").is_some());
    let all: BTreeSet<&str> = paths.map(|(path, _)| path.as_str()).collect();
    let read = held.read.borrow();
    let left: Vec<&str> = all.into_iter().filter(|path| !read.contains(*path)).collect();
    assert_eq!(left, NOT_HELD.map(|(path, _)| path), "hold it, or say why not");
}

/// The content of an observation of each type.
#[test]
fn every_recorded_content_is_what_the_document_says_of_its_type() {
    // A plan is stored as its changes, and a large text as a reference; clients get the full shape.
    const STORED_OTHERWISE: [&str; 2] = ["PLAN", "PLAN_UPDATE"];
    let schemas = Schemas::new();
    let types = schemas.0["Observation"]["discriminator"]["mapping"].as_object().unwrap();
    let mut tried = BTreeSet::new();
    for line in include_str!("../../../crates/engine/tests/it/facts.ndjson").lines() {
        let recorded: Value = serde_json::from_str(line).unwrap();
        let kind = recorded["type"].as_str().unwrap();
        if STORED_OTHERWISE.contains(&kind) || line.contains("\"$payload\"") {
            continue;
        }
        let name = types[kind].as_str().unwrap().rsplit('/').next().unwrap();
        schemas.check(schemas.0[name]["properties"]["content"].clone(), &recorded["content"]);
        tried.insert(kind.to_owned());
    }
    let left: Vec<&str> = types.keys().map(String::as_str).filter(|kind| !tried.contains(*kind)).collect();
    assert_eq!(left, STORED_OTHERWISE, "nothing of it is recorded");
}

#[tokio::test]
async fn frames_and_ops_are_what_the_document_says() {
    let (app, schemas) = (App::start().await, Schemas::new());
    app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
    let mut socket = app.socket("/threads/t1/events").await;
    let ops = [
        json!({ "op": "subscribe", "id": "1", "after": "latest", "types": [] }),
        json!({ "op": "process", "id": "2", "query": "count", "idempotencyKey": "k" }),
        json!({ "op": "ping", "id": 3 }),
        json!({ "op": "process", "query": "" }),
        json!({ "op": "cancel", "id": "5" }),
        json!({ "op": "pause", "id": "6" }),
    ];
    for op in ops {
        if op["query"] != "" {
            schemas.named("SocketOp", &op);
        }
        socket.say(op).await;
    }
    let mut seen = BTreeSet::new();
    let mut nacks = 0;
    while nacks < 2 || !seen.contains("run") {
        let frame = socket.next().await.unwrap();
        schemas.named("SocketFrame", &frame);
        let event = frame["event"].as_str().unwrap().to_owned();
        nacks += usize::from(event == "nack");
        seen.insert(event);
    }
    app.finish("t2", "count").await;
    let events = app.ask("GET", "/threads/t2/events?until=none").header("accept", "text/event-stream");
    events.send().await.problem("not_found");
    let runs = app.get("/threads/t2/runs").await.expect(200);
    let path = format!("/threads/t2/events?until={}", runs["items"][0]["runId"].as_str().unwrap());
    for event in app.ask("GET", &path).header("accept", "text/event-stream").events().await.all().await {
        schemas.named("LiveFrame", &json!({ "event": event.event, "data": event.data }));
    }
    assert!(["caught_up", "ack", "nack", "pong", "run", "observation"].iter().all(|name| seen.contains(*name)));
}

/// A JSON block follows the name of its schema: `### TokenFrame`.
#[test]
fn the_examples_of_the_manual_are_what_the_document_says() {
    let (manual, schemas) = (include_str!("../../../docs/EVENTS.md"), Schemas::new());
    // Contents of observations have tables instead.
    let manual = manual.split("\n## Observations\n").next().unwrap();
    let mut shown = BTreeSet::new();
    for section in manual.split("\n### ").skip(1) {
        let name = section.split_whitespace().next().unwrap();
        let example = section.split("```json\n").nth(1).and_then(|rest| rest.split("\n```").next());
        schemas.named(name, &serde_json::from_str(example.expect(name)).expect(name));
        shown.insert(name.to_owned());
    }
    for union in ["SocketFrame", "SocketOp"] {
        for part in schemas.0[union]["oneOf"].as_array().unwrap() {
            let name = part["$ref"].as_str().unwrap().rsplit('/').next().unwrap();
            assert!(shown.contains(name), "{name} has no example");
        }
    }
}
