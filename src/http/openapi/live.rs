//! The schemas of observations, of live frames and of socket ops. No path of an OpenAPI document can refer to frames
//! and ops, so they are added beside the other schemas. `docs/EVENTS.md` has an example of each, which a test compares.
//! An observation is one of its types, each with the content of its fact.

use serde_json::{Map, Value, json};
use utoipa::OpenApi as _;
use utoipa::openapi::{Components, OpenApi};

use crate::domain::facts;
use crate::domain::frame::{Token, ToolStarted};
use crate::domain::observation::ObservationType;
use crate::http::events::Subscribe;

/// The parts of frames and ops that no route refers to.
#[derive(utoipa::OpenApi)]
#[openapi(components(schemas(Token, ToolStarted, Subscribe)))]
struct Parts;

/// A document with only the parts of frames, ops and observations.
pub(super) fn parts() -> OpenApi {
    let mut document = Parts::openapi();
    let mut contents = Vec::new();
    facts::schemas(&mut contents);
    document.components.get_or_insert_with(Components::new).schemas.extend(contents);
    document
}

/// Turns `Observation` into a choice between its types. Each has the common members, its own value of `type`, and the
/// content of its fact.
fn choose_observations(schemas: &mut Map<String, Value>) {
    let any = schemas["Observation"].take();
    let about = any["description"].as_str().unwrap_or_default();
    let mut names = Vec::new();
    for (kind, content) in facts::schemas(&mut Vec::new()) {
        let mut one = any.clone();
        one["description"] = format!("An observation of the type `{}`.", kind.as_str()).into();
        one["properties"]["type"] = json!({ "type": "string", "enum": [kind.as_str()] });
        one["properties"]["content"] = reference(&content);
        let name = observation_name(kind);
        names.push((name.clone(), kind.as_str().to_owned()));
        schemas.insert(name, one);
    }
    schemas["Observation"] = one_of("type", about, &names);
}

/// Adds the frames and the ops to the schemas, which contain their parts.
pub(super) fn add(schemas: &mut Map<String, Value>) {
    choose_observations(schemas);
    let number = |name: &str, about: &str| {
        json!({
            "type": "object", "required": [name],
            "properties": { name: { "type": "integer", "format": "int64", "description": about } },
        })
    };
    let streamed = [
        ("observation", reference("Observation")),
        ("token", reference("Token")),
        ("run", reference("RunResource")),
        ("tool_started", reference("ToolStarted")),
        ("caught_up", number("seq", "The backlog up to this observation is sent; what follows is live.")),
        (
            "gap",
            number(
                "fromSeq",
                "This reader was too slow, or the log begins later or went back to an earlier state: read again from here.",
            ),
        ),
        ("thread", reference("Thread")),
        ("thread_deleted", thread_id()),
        ("suspension", reference("ListedSuspension")),
        ("draining", number("retryInMs", "The server stops; come back after so many milliseconds.")),
    ];
    let answered = [
        ("ack", acknowledged(schemas)),
        (
            "nack",
            json!({
                "type": "object", "required": ["id", "problem"],
                "properties": { "id": named_op(), "problem": reference("Problem") },
            }),
        ),
        ("pong", json!({ "type": "object", "required": ["id"], "properties": { "id": named_op() } })),
    ];
    let about = "One server-sent event, or one message of a WebSocket.";
    let streamed = streamed.map(|(event, data)| (frame_name(event), event, frame(event, data)));
    let answered = answered.map(|(event, data)| (frame_name(event), event, frame(event, data)));
    let names = |all: &[(String, &str, Value)]| -> Vec<(String, String)> {
        all.iter().map(|(name, event, _)| (name.clone(), (*event).to_owned())).collect()
    };
    let (live, mut all) = (names(&streamed), names(&streamed));
    all.extend(names(&answered));
    schemas.insert("LiveFrame".to_owned(), one_of("event", about, &live));
    let about = "What the server says over a WebSocket: the live frames, and the answers to ops.";
    schemas.insert("SocketFrame".to_owned(), one_of("event", about, &all));
    schemas.extend(streamed.into_iter().chain(answered).map(|(name, _, frame)| (name, frame)));
    add_ops(schemas);
}

fn add_ops(schemas: &mut Map<String, Value>) {
    let nothing = json!({ "type": "object", "additionalProperties": false });
    let bodies = [
        ("process", schemas["AgentProps"].clone()),
        ("resume", schemas["ResumeRequest"].clone()),
        ("cancel", nothing.clone()),
        ("pause", nothing.clone()),
        ("ping", nothing),
        ("subscribe", schemas["Subscribe"].clone()),
    ];
    let mut names = Vec::new();
    for (op, body) in bodies {
        let name = format!("{}Op", capitalised(op));
        names.push((name.clone(), op.to_owned()));
        schemas.insert(name, op_schema(op, body));
    }
    let about = "What a client says over a WebSocket; each op is the twin of a REST call.";
    schemas.insert("SocketOp".to_owned(), one_of("op", about, &names));
    schemas.shift_remove("Subscribe");
}

fn op_schema(op: &str, mut body: Value) -> Value {
    let text = json!({ "type": "string" });
    let mut own = json!({
        "op": { "type": "string", "enum": [op] }, "id": named_op(), "traceparent": text, "tracestate": text,
    });
    if !matches!(op, "ping" | "subscribe") {
        own["idempotencyKey"] = text;
    }
    let mut required = vec![json!("op")];
    required.extend(body["required"].as_array().into_iter().flatten().cloned());
    let members = own.as_object_mut().expect("an object");
    members.extend(body["properties"].as_object().into_iter().flatten().map(|(name, it)| (name.clone(), it.clone())));
    (body["properties"], body["required"]) = (own, required.into());
    body
}

/// The reply to an op: the response of the corresponding REST call, with the op's id.
fn acknowledged(schemas: &Map<String, Value>) -> Value {
    let mut members = Map::new();
    members.insert("id".to_owned(), named_op());
    for receipt in ["Receipt", "CancelReceipt"] {
        let properties = schemas[receipt]["properties"].as_object().into_iter().flatten();
        members.extend(properties.map(|(name, member)| (name.clone(), member.clone())));
    }
    members.insert(
        "replayed".to_owned(),
        json!({ "type": "boolean", "description": "This is the answer to an earlier op with the same idempotencyKey." }),
    );
    json!({ "type": "object", "required": ["id"], "properties": members })
}

fn thread_id() -> Value {
    json!({ "type": "object", "required": ["threadId"], "properties": { "threadId": { "type": "string" } } })
}

fn named_op() -> Value {
    json!({ "description": "As the client named the op; null where it did not." })
}

fn frame(event: &str, data: Value) -> Value {
    json!({
        "type": "object", "required": ["event", "data"],
        "properties": { "event": { "type": "string", "enum": [event] }, "data": data },
    })
}

fn one_of(tag: &str, about: &str, parts: &[(String, String)]) -> Value {
    let mapping: Map<String, Value> =
        parts.iter().map(|(name, word)| (word.clone(), format!("#/components/schemas/{name}").into())).collect();
    let choices: Vec<Value> = parts.iter().map(|(name, _)| reference(name)).collect();
    json!({
        "description": about, "oneOf": choices, "discriminator": { "propertyName": tag, "mapping": mapping },
    })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// `caught_up` → `CaughtUpFrame`
fn frame_name(event: &str) -> String {
    let words: String = event.split('_').map(capitalised).collect();
    format!("{words}Frame")
}

/// `TOOL_CALL` → `ToolCallObservation`
fn observation_name(kind: ObservationType) -> String {
    let words: String = kind.as_str().to_ascii_lowercase().split('_').map(capitalised).collect();
    format!("{words}Observation")
}

fn capitalised(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_ascii_uppercase() + rest
}
