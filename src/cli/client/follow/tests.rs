use std::time::Duration;

use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use super::{Ended, Follower, Watched, follow};
use crate::cli::Error;
use crate::cli::client::args::Output;
use crate::cli::client::input::Input;
use crate::cli::server::tests::answers;

fn found(body: &serde_json::Value) -> String {
    let body = body.to_string();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn watched() -> Watched {
    Watched {
        thread: "t".to_owned(),
        title: String::new(),
        run: "run_2".to_owned(),
        after: 4,
        output: Output { json: true, tokens: false },
        may_ask: false,
        deadline: Some(Instant::now() + Duration::from_secs(30)),
        command: "pes watch",
    }
}

/// Follows until the run waits; returns the questions that it waits for, and whether another run asks them.
async fn waits_for(all: &[&str]) -> (Vec<String>, bool) {
    let server = answers(all);
    match follow(&server, watched(), &mut Input::of_terminal()).await {
        Ok(Ended::Waits { open, is_queued }) => {
            (open.iter().map(|asked| asked.suspension_id.to_string()).collect(), is_queued)
        }
        Ok(Ended::Run(_) | Ended::Left) => panic!("it does not wait"),
        Err(error) => panic!("{error}"),
    }
}

fn own() -> (Vec<String>, bool) {
    (vec!["sus_1".to_owned()], false)
}

fn of_another() -> (Vec<String>, bool) {
    (own().0, true)
}

fn run(status: &str) -> String {
    let usage = json!({ "inputTokens": 0, "outputTokens": 0, "thinkingTokens": 0, "cachedInputTokens": 0 });
    found(&json!({
        "runId": "run_2", "threadId": "t", "status": status, "query": "?", "traceId": "x", "model": "m", "provider": "p",
        "createdAt": 1, "llmCalls": 1, "toolCalls": 0, "usage": usage
    }))
}

fn question(run: &str) -> serde_json::Value {
    json!({
        "suspensionId": "sus_1", "threadId": "t", "runId": run, "kind": "approval", "status": "pending",
        "message": "May it?", "feedbackSchema": { "inputType": "confirm", "prompt": "May it?" }, "createdAt": 1
    })
}

fn open(run: &str) -> String {
    found(&json!({ "items": [question(run)] }))
}

/// A call of the run asks, and keeps running.
fn open_in_a_call(run: &str) -> String {
    let mut asked = question(run);
    (asked["kind"], asked["whileRunning"]) = (json!("input"), json!(true));
    found(&json!({ "items": [asked] }))
}

/// The stream has nothing new after the cursor.
const STREAM: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: caught_up\ndata: {\"seq\":4}\n\n";
const BUSY: &str = "HTTP/1.1 503 No\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";

#[tokio::test]
async fn a_question_from_before_what_is_watched_is_waited_for() {
    assert_eq!(waits_for(&[STREAM, &run("suspended"), &open("run_2")]).await, own());
}

/// As after a restore: the log went back to before a question that was shown.
#[tokio::test]
async fn a_question_that_is_not_there_any_more_is_not_waited_for() {
    let mut asked = question("run_2");
    asked["suspensionId"] = json!("sus_9");
    let told = json!({
        "seq": 5, "id": "obs_5", "threadId": "t", "runId": "run_2", "traceId": "x", "timestamp": 1, "type": "AGENT_SUSPENDED",
        "title": "May it?", "content": asked
    });
    let restored = format!("event: observation\ndata: {told}\n\nevent: gap\ndata: {{\"fromSeq\":1}}\n\n");
    let stream = format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n{restored}");
    assert_eq!(waits_for(&[&stream, STREAM, &run("suspended"), &open("run_2")]).await, own());
}

#[tokio::test]
async fn a_run_that_is_queued_behind_one_that_asks_waits_for_a_person() {
    let thread = found(&json!({ "status": "suspended" }));
    assert_eq!(waits_for(&[STREAM, &run("queued"), &thread, &open("run_1")]).await, of_another());
}

#[tokio::test]
async fn a_run_whose_call_asks_waits_for_a_person_while_it_runs() {
    assert_eq!(waits_for(&[STREAM, &run("running"), &open_in_a_call("run_2")]).await, own());
    let thread = found(&json!({ "status": "running" }));
    assert_eq!(waits_for(&[STREAM, &run("queued"), &thread, &open_in_a_call("run_1")]).await, of_another());
}

#[tokio::test]
async fn a_server_that_cannot_say_now_how_the_run_stands_is_asked_again() {
    assert_eq!(waits_for(&[STREAM, BUSY, &run("suspended"), &open("run_2")]).await, own());
    assert_eq!(waits_for(&[STREAM, &run("suspended"), BUSY, &run("suspended"), &open("run_2")]).await, own());
}

#[tokio::test]
async fn a_typed_line_that_is_no_text_is_asked_for_again_and_a_terminal_that_is_gone_ends_only_the_asking() {
    let mut failures = vec![Error::Failed("gone".to_owned()), Error::Usage("no text".to_owned())];
    let mut input = Input::of(move || failures.pop().map_or(Ok(None), Err));
    let server = answers(&[]);
    let mut follower = Follower::new(&server, Watched { may_ask: true, ..watched() }, &mut input);
    follower.asking = Some(serde_json::from_value(question("run_2")).unwrap());
    let mut interrupts = signal(SignalKind::interrupt()).unwrap();
    for is_asked_again in [true, false] {
        let typed = follower.input.line().await;
        assert!(follower.typed(typed, &mut interrupts).await.unwrap().is_none());
        assert_eq!((follower.asking.is_some(), follower.watched.may_ask), (is_asked_again, is_asked_again));
    }
}
