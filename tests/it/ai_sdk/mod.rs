//! The door for `useChat` of the AI SDK: `/api/chat`.

mod again;
mod answers;
mod hostile;
mod killed;
mod peers;
mod turns;

use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::http::{Ask, Events, Said};

/// The request for a new message of the user.
fn user(text: &str) -> Value {
    json!({ "id": format!("mine-{text}"), "role": "user", "parts": [{ "type": "text", "text": text }] })
}

fn body(chat: &str, messages: &[Value]) -> Value {
    json!({ "id": chat, "messages": messages, "trigger": "submit-message", "theme": "dark" })
}

fn chat(app: &App, body: &Value) -> Ask {
    app.ask("POST", "/api/chat").json(body)
}

/// Sends a message, and reads the answer to its end.
async fn told(app: &App, body: &Value) -> Streamed {
    Streamed::of(&chat(app, body).send().await)
}

/// A stream, read to its end.
#[derive(Debug)]
struct Streamed {
    run: String,
    chunks: Vec<Value>,
}

impl Streamed {
    fn of(said: &Said) -> Self {
        assert_eq!(said.status, 200, "{}", said.text());
        let text = said.text();
        let mut events: Vec<&str> = text.split("\n\n").filter(|event| !event.is_empty()).collect();
        assert_eq!(events.pop(), Some("data: [DONE]"), "{text}");
        let chunk = |event: &str| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap();
        let chunks = events.into_iter().filter(|event| !event.starts_with(':')).map(chunk).collect();
        Self { run: said.header("x-pes-run").unwrap().to_owned(), chunks }
    }

    fn types(&self) -> Vec<&str> {
        self.chunks.iter().map(|chunk| chunk["type"].as_str().unwrap()).collect()
    }

    fn all(&self, kind: &str) -> Vec<&Value> {
        self.chunks.iter().filter(|chunk| chunk["type"] == kind).collect()
    }

    fn one(&self, kind: &str) -> &Value {
        match self.all(kind)[..] {
            [one] => one,
            ref others => panic!("{} of {kind}: {:#?}", others.len(), self.chunks),
        }
    }

    fn text(&self) -> String {
        self.all("text-delta").iter().map(|chunk| chunk["delta"].as_str().unwrap()).collect()
    }

    /// The message has the id of its run, in every stream.
    fn is_of(&self, run: &str) {
        assert_eq!(self.run, run);
        assert_eq!(self.one("start")["messageId"], run);
    }
}

/// The conversation as a reloaded page gets it.
async fn shown(app: &App, chat: &str) -> Vec<Value> {
    let shown = app.get(&format!("/api/chat/{chat}")).await.expect(200);
    assert_eq!(shown["id"], chat);
    shown["messages"].as_array().unwrap().clone()
}

/// The parts of the last message that are calls.
async fn calls(app: &App, chat: &str) -> Vec<Value> {
    let last = shown(app, chat).await.pop().unwrap();
    let parts = last["parts"].as_array().unwrap().iter();
    parts.filter(|part| part["toolCallId"].is_string()).cloned().collect()
}

/// The last message, after the page has changed its calls.
async fn changed(app: &App, chat: &str, change: impl Fn(&mut Value)) -> Value {
    let mut last = shown(app, chat).await.pop().unwrap();
    last["parts"].as_array_mut().unwrap().iter_mut().filter(|part| part["toolCallId"].is_string()).for_each(change);
    last
}

fn decides(approved: bool) -> impl Fn(&mut Value) {
    move |part| {
        if part["state"] == "approval-requested" {
            part["state"] = json!("approval-responded");
            part["approval"]["approved"] = json!(approved);
        }
    }
}

/// The stream of a message that is being written.
async fn running(app: &App, chat: &str) -> Events {
    app.ask("GET", &format!("/api/chat/{chat}/stream")).events().await
}
