//! The OpenAI wire as its clients use it: bodies and events over a real socket.

mod asked_by_tools;
pub mod beside;
mod cancelled;
mod chat;
mod conversations;
mod errors;
mod forms;
mod killed;
mod long_conversations;
mod models;
mod params;
mod peer;
mod refused;
mod repeats;
mod responses;
mod shortened;
mod shown_last;

use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::http::{Ask, Said, soon};

pub const CHAT: &str = "/v1/chat/completions";

/// A chat completion of this message alone.
pub fn said(text: &str) -> Value {
    json!({ "model": "pes", "messages": [{ "role": "user", "content": text }] })
}

/// The same, with other members.
pub fn with(mut body: Value, more: Value) -> Value {
    for (name, value) in more.as_object().expect("members") {
        body[name] = value.clone();
    }
    body
}

/// A chat completion of these messages, by the user and the agent in turns.
fn turns(texts: &[&str]) -> Value {
    let role = |at: usize| if at.is_multiple_of(2) { "user" } else { "assistant" };
    let messages = texts.iter().enumerate().map(|(at, text)| json!({ "role": role(at), "content": text }));
    with(said(""), json!({ "messages": messages.collect::<Vec<_>>() }))
}

/// How many questions of the thread were answered.
async fn answered(app: &App, thread: &str) -> usize {
    app.observed(thread, "AGENT_RESUMED").await.len()
}

pub fn chat(app: &App, body: &Value) -> Ask {
    app.ask("POST", CHAT).json(body)
}

/// The content of a stream of chunks.
#[derive(Debug, Default)]
pub struct Streamed {
    pub chunks: Vec<Value>,
    pub is_done: bool,
}

impl Streamed {
    /// Reads `data:` lines to the end; checks that nothing else is sent, and that all chunks belong to one answer.
    pub fn of(answer: &Said) -> Self {
        assert_eq!(answer.header("content-type"), Some("text/event-stream"), "{}", answer.text());
        let mut streamed = Self::default();
        for line in answer.text().lines().filter(|line| !line.is_empty() && !line.starts_with(':')) {
            let data = line.strip_prefix("data: ").unwrap_or_else(|| panic!("{line}"));
            assert!(!streamed.is_done, "after the end: {line}");
            match data {
                "[DONE]" => streamed.is_done = true,
                data => streamed.chunks.push(serde_json::from_str(data).expect("JSON")),
            }
        }
        let ids = streamed.chunks.iter().filter_map(|chunk| chunk["id"].as_str());
        let ids: std::collections::BTreeSet<&str> = ids.collect();
        assert_eq!(ids.len(), 1, "{:#?}", streamed.chunks);
        streamed
    }

    /// The texts of this member of the deltas, joined.
    pub fn joined(&self, member: &str) -> String {
        self.deltas().filter_map(|delta| delta[member].as_str()).collect()
    }

    pub fn deltas(&self) -> impl Iterator<Item = &Value> {
        self.chunks.iter().map(|chunk| &chunk["choices"][0]["delta"])
    }

    pub fn finish(&self) -> Option<&str> {
        self.chunks.iter().find_map(|chunk| chunk["choices"][0]["finish_reason"].as_str())
    }
}

pub async fn streamed(app: &App, body: Value) -> Streamed {
    Streamed::of(&chat(app, &with(body, json!({ "stream": true }))).send().await)
}

/// The run of the thread, once it has this status.
pub async fn stands(app: &App, thread: &str, status: &str) -> Value {
    let mut events =
        app.ask("GET", &format!("/threads/{thread}/events")).header("accept", "text/event-stream").events().await;
    loop {
        let runs = app.get(&format!("/threads/{thread}/runs")).await.expect(200);
        let last = runs["items"].as_array().unwrap().last().cloned().unwrap_or_default();
        if last["status"] == status {
            return last;
        }
        soon(events.next()).await.expect("it goes on");
    }
}
