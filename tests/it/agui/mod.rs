//! The door for front ends of AG-UI: `/agui`.

mod again;
mod asked_by_tools;
mod beside;
mod hostile;
mod killed;
mod peers;
mod resumed;
mod runs;

use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::http::Ask;

fn user(text: &str) -> Value {
    json!({ "id": format!("mine-{text}"), "role": "user", "content": text })
}

/// What a client of version 1.0 sends.
fn input(thread: &str, run: &str, messages: &[Value]) -> Value {
    json!({ "threadId": thread, "runId": run, "protocolVersion": "1.0", "state": null, "messages": messages,
        "tools": [], "context": [], "forwardedProps": null })
}

fn with(mut input: Value, name: &str, value: Value) -> Value {
    input[name] = value;
    input
}

fn ask(app: &App, input: &Value) -> Ask {
    app.ask("POST", "/agui").json(input)
}

/// Every event of a stream, read to its end.
async fn told(ask: Ask) -> Vec<Value> {
    let events: Vec<Value> = ask.events().await.all().await.into_iter().map(|event| event.data).collect();
    assert_eq!(events[0]["type"], "RUN_STARTED", "{events:#?}");
    let last = events.last().unwrap()["type"].as_str().unwrap();
    assert!(matches!(last, "RUN_FINISHED" | "RUN_ERROR"), "{events:#?}");
    events
}

fn all<'e>(events: &'e [Value], kind: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

fn text(events: &[Value]) -> String {
    all(events, "TEXT_MESSAGE_CONTENT").iter().map(|event| event["delta"].as_str().unwrap()).collect()
}

/// The last event of a stream that waits for answers.
fn interrupts(events: &[Value]) -> &[Value] {
    events.last().and_then(|end| end["outcome"]["interrupts"].as_array()).map_or(&[], Vec::as_slice)
}
