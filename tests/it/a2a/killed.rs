//! kill -9 while a client streams a task: a client that subscribes again gets the current task and all events that
//! follow, to its end.

use pes::a2a::types::{StreamEvent, Task, TaskState};
use pes::a2a::wire::Version;
use serde_json::{Value, json};

use super::streams::{answer, states};
use crate::support::http::{Ask, Event, Events};
use crate::support::process::{Place, Server};
use crate::support::slow_tool::{SCRIPT, Slow};

fn ask(server: &Server, verb: &str, path: &str) -> Ask {
    server.address.ask(verb, &format!("/a2a{path}")).header("a2a-version", "1.0")
}

/// Sends a message without waiting for the result; the task's id.
pub async fn sent(server: &Server, message: Value) -> String {
    let configuration = json!({ "returnImmediately": true });
    let body = json!({ "message": message, "configuration": configuration });
    let answer = ask(server, "POST", "/message:send").json(&body).send().await.expect(200);
    answer["task"]["id"].as_str().expect("a task").to_owned()
}

pub fn message(text: &str) -> Value {
    json!({ "messageId": text, "role": "ROLE_USER", "parts": [{ "text": text }] })
}

async fn task(server: &Server, id: &str) -> Task {
    let found = ask(server, "GET", &format!("/tasks/{id}")).send().await.expect(200);
    Version::V1.read_task(&found).expect("a task")
}

/// The task that a new subscriber gets, and the rest of the stream.
pub async fn subscribed(server: &Server, id: &str) -> (Task, Events) {
    let mut events = ask(server, "GET", &format!("/tasks/{id}:subscribe")).events().await;
    let first = events.next().await.expect("the task comes first").data;
    match Version::V1.read_event(&first).expect("an event") {
        StreamEvent::Task(task) => (task, events),
        other => panic!("the task comes first, not {other:?}"),
    }
}

pub async fn rest(events: Events) -> Vec<StreamEvent> {
    read(events.all().await)
}

async fn broken_off(events: Events) -> Vec<StreamEvent> {
    read(events.broken_off().await)
}

fn read(events: Vec<Event>) -> Vec<StreamEvent> {
    events.into_iter().map(|event| Version::V1.read_event(&event.data).expect("an event")).collect()
}

pub fn is_told_to_the_end(events: &[StreamEvent]) {
    assert_eq!(answer(events), ("All of it is done now.".to_owned(), true), "{events:#?}");
}

#[tokio::test]
async fn a_working_task_is_told_on_after_a_crash() {
    let (place, mut slow) = Slow::on(Place::sqlite(SCRIPT)).await;
    let server = Server::start(&place, None).await;
    let id = sent(&server, message("work")).await;
    slow.is_called().await;
    let (before, stream) = subscribed(&server, &id).await;
    server.kill().await;
    assert_eq!(states(&broken_off(stream).await), []);
    let server = Server::start(&place, None).await;
    slow.is_called().await;
    let (again, stream) = subscribed(&server, &id).await;
    assert_eq!((&again, &again), (&before, &task(&server, &id).await), "nothing has happened to it");
    assert_eq!(again.status.state, TaskState::Working);
    slow.ends();
    let events = rest(stream).await;
    assert_eq!(states(&events), [TaskState::Completed]);
    is_told_to_the_end(&events);
    server.kill().await;
}

#[tokio::test]
async fn a_task_that_asks_is_told_on_after_a_crash() {
    let place = Place::sqlite(SCRIPT);
    let server = Server::start(&place, None).await;
    let id = sent(&server, message("ask")).await;
    server.address.ask("GET", &format!("/runs/{id}?wait=30")).send().await.expect(200);
    let (before, stream) = subscribed(&server, &id).await;
    assert_eq!(before.status.state, TaskState::InputRequired);
    server.kill().await;
    assert_eq!(states(&broken_off(stream).await), []);
    let server = Server::start(&place, None).await;
    let (again, stream) = subscribed(&server, &id).await;
    assert_eq!(again, before);
    let mut answer = message("this one");
    answer["taskId"] = id.as_str().into();
    sent(&server, answer).await;
    let events = rest(stream).await;
    assert_eq!(states(&events), [TaskState::Working, TaskState::Completed]);
    is_told_to_the_end(&events);
    server.kill().await;
}

/// The end is stored and not published: a subscriber finds a finished task, which says how it ended.
#[tokio::test]
async fn a_task_that_ended_in_the_moment_of_a_crash_has_ended() {
    let place = Place::sqlite(SCRIPT);
    let mut server = Server::start(&place, Some("final.committed")).await;
    let id = sent(&server, message("ask")).await;
    server.address.ask("GET", &format!("/runs/{id}?wait=30")).send().await.expect(200);
    let (_, stream) = subscribed(&server, &id).await;
    let mut answer = message("this one");
    answer["taskId"] = id.as_str().into();
    sent(&server, answer).await;
    server.must_reach().await;
    server.kill().await;
    assert_eq!(states(&broken_off(stream).await), [TaskState::Working]);
    let server = Server::start(&place, None).await;
    let refused = ask(&server, "GET", &format!("/tasks/{id}:subscribe")).send().await;
    assert_eq!(refused.expect(400)["error"]["details"][0]["reason"], "UNSUPPORTED_OPERATION");
    let task = task(&server, &id).await;
    assert_eq!((task.status.state, task.artifacts.len()), (TaskState::Completed, 1));
    server.kill().await;
}
