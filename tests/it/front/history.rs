//! `history` of `POST /threads/{thread}/process`: a conversation from elsewhere continues here.

use serde_json::{Value, json};

use crate::support::app::App;

fn goes_on() -> Value {
    json!({
        "query": "hello",
        "history": [{ "role": "user", "content": "We are 14." }, { "role": "assistant", "content": "Noted." }],
    })
}

fn contents(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|message| message["content"].as_str().unwrap()).collect()
}

/// The messages, the log and a copy all begin with it.
#[tokio::test]
async fn a_thread_begins_with_what_was_said_elsewhere() {
    let app = App::start().await;
    let run = app.ask("POST", "/threads/t1/process").header("prefer", "wait=30").json(&goes_on()).send().await;
    assert_eq!(run.expect(200)["metadata"]["status"], "success");
    let messages = app.get("/threads/t1/messages").await.expect(200);
    assert_eq!(contents(&messages)[..3], ["We are 14.", "Noted.", "hello"]);
    let roles: Vec<&Value> = messages["items"].as_array().unwrap().iter().map(|one| &one["role"]).collect();
    assert_eq!(roles, ["USER", "AI", "USER", "AI"]);

    let log = app.get("/threads/t1/events").await.expect(200);
    let first = &log["items"][0];
    assert_eq!((&first["type"], &first["seq"]), (&json!("STATE_UPDATE"), &json!(1)));
    assert_eq!(first["content"]["messages"], json!([messages["items"][0], messages["items"][1]]));
    assert_eq!(log["items"][1]["type"], "RUN_STARTED");

    for (at, has) in [(json!(1), 2), (Value::Null, 4)] {
        let copy = app.post("/threads/t1/fork", json!({ "at": at })).await.expect(201);
        let path = format!("/threads/{}/messages", copy["threadId"].as_str().unwrap());
        let copied = app.get(&path).await.expect(200);
        assert_eq!(contents(&copied), contents(&messages)[..has]);
    }
}

#[tokio::test]
async fn a_thread_on_which_something_happened_takes_none_in() {
    let app = App::start().await;
    app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
    app.ask("POST", "/threads/t1/process").header("prefer", "wait=30").json(&goes_on()).send().await.expect(200);
    let last = app.get("/threads/t1").await.expect(200)["lastSeq"].clone();
    let refused = app.post("/threads/t1/process", goes_on()).await.problem("thread_exists");
    assert_eq!(refused["errors"][0]["pointer"], "/history");
    assert_eq!(app.get("/threads/t1").await.expect(200)["lastSeq"], last);
}

#[tokio::test]
async fn what_is_taken_in_says_something_and_is_bounded() {
    let app = App::with(|config| config.limits.history_messages = 2).await;
    let sent = |history: Value| app.post("/threads/t1/process", json!({ "query": "hello", "history": history }));
    let said = json!({ "role": "user", "content": "x" });
    let cases = [
        (json!([said, said, said]), "/history"),
        (json!([said, { "role": "assistant", "content": " " }]), "/history/1/content"),
    ];
    for (history, pointer) in cases {
        let refused = sent(history).await.problem("invalid");
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{refused:#}");
    }
    sent(json!([{ "role": "system", "content": "x" }])).await.problem("invalid");
    app.get("/threads/t1").await.problem("not_found");
    sent(json!([said, said])).await.expect(202);
}

/// A socket's op has the same body.
#[tokio::test]
async fn a_sockets_op_takes_one_in() {
    let app = App::start().await;
    app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
    let mut socket = app.socket("/threads/t1/events").await;
    let mut op = goes_on();
    (op["op"], op["id"]) = (json!("process"), json!("1"));
    socket.say(op).await;
    assert_eq!(socket.answer("1").await["event"], "ack");
    let messages = app.get("/threads/t1/messages").await.expect(200);
    assert_eq!(contents(&messages)[..3], ["We are 14.", "Noted.", "hello"]);
}
