//! What is said is what `/openapi.json` says of it: answers, frames, ops, and the examples of `docs/EVENTS.md`.

use std::collections::BTreeSet;

use pes::domain::state::PESAgentStateData;
use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::http::Said;

/// The document's schemas, with every object closed: a member that is not described is a defect here.
struct Schemas(Value);

impl Schemas {
    fn new() -> Self {
        let mut schemas = pes::http::openapi()["components"]["schemas"].take();
        let mut parts = BTreeSet::new();
        composed(&schemas, &mut parts);
        for (name, schema) in schemas.as_object_mut().unwrap() {
            // What others are composed of cannot be closed itself.
            let is_object = schema.get("properties").is_some() || schema.get("allOf").is_some();
            // Problems have members of their own, by code.
            if is_object && name != "Problem" && !parts.contains(name) && schema.get("additionalProperties").is_none() {
                schema["unevaluatedProperties"] = false.into();
            }
        }
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
        self.check(json!({ "$ref": format!("#/components/schemas/{name}") }), value);
    }
}

/// The names that stand in an `allOf`.
fn composed(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            let parts = map.get("allOf").and_then(Value::as_array).into_iter().flatten();
            names.extend(parts.filter_map(|part| part["$ref"].as_str()?.rsplit('/').next().map(str::to_owned)));
            map.values().for_each(|member| composed(member, names));
        }
        Value::Array(list) => list.iter().for_each(|entry| composed(entry, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A server whose every answer is held against the document.
struct Held {
    app: App,
    document: Value,
    schemas: Schemas,
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
        self.check("get", of, &self.app.get(path).await)
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

#[tokio::test]
async fn answers_are_what_the_document_says() {
    let app = App::start().await;
    let held = Held { app, document: pes::http::openapi(), schemas: Schemas::new() };
    let new = json!({ "threadId": "t1", "metadata": { "a": 1 }, "config": { "historyLimit": 3 } });
    held.post("/threads", "/threads", new).await;
    held.state("").await;
    let process = "/threads/{thread}/process";
    let asked = held.post("/threads/t1/process", process, json!({ "query": "send" })).await;
    let question = &asked["suspensions"][0];
    held.schemas.named("AskedQuestion", question);
    held.state("").await;
    held.get("/suspensions", "/suspensions").await;
    let answer = json!({ "suspensionId": question["suspensionId"], "approved": true });
    let done = held.post("/threads/t1/resume", "/threads/{thread}/resume", answer.clone()).await;
    assert_eq!(done["metadata"]["status"], "success");
    held.post("/threads/t1/resume", "/threads/{thread}/resume", answer).await;
    held.state("").await;
    held.state("?at=12").await;
    let run = done["metadata"]["runId"].as_str().unwrap();
    held.get(&format!("/runs/{run}"), "/runs/{run}").await;
    held.post(&format!("/runs/{run}/cancel"), "/runs/{run}/cancel", json!({})).await;
    let call = question["callId"].as_str().unwrap();
    held.get(&format!("/threads/t1/tool-calls/{call}"), "/threads/{thread}/tool-calls/{call}").await;
    held.post("/threads/t1/fork", "/threads/{thread}/fork", json!({ "threadId": "t2" })).await;
    for list in ["runs", "messages", "events", "plan", "audit", "agent-state", "tasks"] {
        held.get(&format!("/threads/t1/{list}"), &format!("/threads/{{thread}}/{list}")).await;
    }
    for path in ["/", "/threads", "/models", "/tools", "/agents", "/usage", "/audit", "/policy", "/keys"] {
        held.get(path, path).await;
    }
    for path in ["/healthz", "/readyz", "/version", "/mcp-servers", "/http-tools", "/webhooks", "/openapi.json"] {
        held.get(path, path).await;
    }
    held.get("/threads/none", "/threads/{thread}").await;
    held.get("/threads?limit=0", "/threads").await;
    held.get("/threads?limit=1000", "/threads").await;
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

/// A block of JSON stands below the name of its schema: `### TokenFrame`.
#[test]
fn the_examples_of_the_manual_are_what_the_document_says() {
    let (manual, schemas) = (include_str!("../../../docs/EVENTS.md"), Schemas::new());
    // What observations say has tables instead.
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
