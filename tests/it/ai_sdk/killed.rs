//! After a kill -9 in the middle of a message, another process resumes the stream with the whole message, under the
//! same id.

use serde_json::{Value, json};

use super::{body, user};
use crate::support::http::{Event, Events};
use crate::support::process::{Place, Server};
use crate::support::slow_tool::{SCRIPT, Slow};

async fn begun(server: &Server, chat: &str, text: &str) -> (Value, Events) {
    let mut events = server.address.ask("POST", "/api/chat").json(&body(chat, &[user(text)])).events().await;
    let start = events.next().await.expect("it begins").data;
    (start, events)
}

async fn taken_up(server: &Server) -> (Value, Events) {
    let mut events = server.address.ask("GET", "/api/chat/t/stream").events().await;
    let start = events.next().await.expect("it begins").data;
    (start, events)
}

async fn rest(events: Events) -> Vec<Value> {
    data(events.all().await)
}

fn data(events: Vec<Event>) -> Vec<Value> {
    events.into_iter().map(|event| event.data).collect()
}

fn is_whole(chunks: &[Value]) {
    let texts = chunks.iter().filter(|chunk| chunk["type"] == "text-delta");
    let text: String = texts.map(|chunk| chunk["delta"].as_str().unwrap()).collect();
    assert_eq!(text, "All of it is done now.");
    assert!(chunks.iter().any(|chunk| chunk["type"] == "tool-output-available"), "{chunks:#?}");
    assert_eq!(chunks.last(), Some(&json!("[DONE]")));
}

#[tokio::test]
async fn a_message_is_told_whole_after_a_crash() {
    let (place, mut slow) = Slow::on(Place::sqlite(SCRIPT)).await;
    let server = Server::start(&place, None).await;
    let (start, events) = begun(&server, "t", "work").await;
    slow.is_called().await;
    server.kill().await;
    assert_ne!(data(events.broken_off().await).last(), Some(&json!("[DONE]")));
    let server = Server::start(&place, None).await;
    slow.is_called().await;
    let (again, events) = taken_up(&server).await;
    assert_eq!(again, start);
    slow.ends();
    is_whole(&rest(events).await);
    let nothing = server.address.ask("GET", "/api/chat/t/stream").send().await;
    assert_eq!(nothing.status, 204);
    server.kill().await;
}

#[tokio::test]
async fn another_process_tells_the_same_message_and_takes_the_answer() {
    let (place, mut slow) = Slow::on(Place::postgres(SCRIPT).await).await;
    let owner = Server::start(&place, None).await;
    let (start, events) = begun(&owner, "t", "work").await;
    slow.is_called().await;
    let other = Server::start(&place, None).await;
    let (again, elsewhere) = taken_up(&other).await;
    assert_eq!(again, start);
    owner.kill().await;
    drop(events);
    slow.is_called().await;
    slow.ends();
    is_whole(&rest(elsewhere).await);

    // A question that one process has asked is answered at another.
    let asked = rest(begun(&other, "u", "ask").await.1).await;
    let call = asked.iter().find(|chunk| chunk["type"] == "tool-input-available").unwrap().clone();
    let third = Server::start(&place, None).await;
    let shown = third.address.ask("GET", "/api/chat/u").send().await.expect(200);
    let mut last = shown["messages"].as_array().unwrap().last().unwrap().clone();
    for part in last["parts"].as_array_mut().unwrap() {
        if part["toolCallId"] == call["toolCallId"] {
            part["state"] = json!("output-available");
            part["output"] = json!("this one");
        }
    }
    let answered = third.address.ask("POST", "/api/chat").json(&body("u", &[last])).events().await;
    is_whole(&rest(answered).await);
    third.kill().await;
    other.kill().await;
}
