//! `history` of `POST /threads/{thread}/process`: a conversation from elsewhere continues here.

use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::store::{Moody, fresh_store};

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

/// Clients of other makers send the whole conversation with each query.
#[tokio::test]
async fn a_query_at_a_door_reads_as_much_of_an_old_thread_as_of_a_young_one() {
    let (store, readers) = Moody::apart(fresh_store().await);
    let app = App::of(store, |_| {}).await;
    for length in [20, 900] {
        let thread = format!("t{length}");
        // How many messages the request reads, and its run.
        let read = async |path: &str, body: Value| {
            readers.messages_read();
            let answer = app.ask("POST", path).header("x-pes-thread", &thread).json(&body).send().await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            (readers.messages_read(), answer.header("x-pes-run").unwrap_or_default().to_owned())
        };
        let user = |id: &str| json!({ "id": id, "role": "user", "content": "hello" });
        let agui = |run: &str, messages: Vec<Value>| json!({ "threadId": thread, "runId": run, "messages": messages, "tools": [], "context": [] });
        let begun = (0..length).map(|at| user(&format!("before {at}"))).chain([user("first")]);
        assert_eq!(read("/agui", agui("r1", begun.collect())).await.0, 0);
        assert_eq!(read("/agui", agui("r2", vec![user("first"), user("second")])).await.0, 16, "from its end");
        assert_eq!(read("/agui", agui("r3", vec![user("third")])).await.0, 32, "its end and its beginning");
        let said = |id: &str| json!({ "id": id, "role": "user", "parts": [{ "type": "text", "text": "hello" }] });
        let (none, last) = read("/api/chat", json!({ "id": thread, "messages": [said("fourth")] })).await;
        assert_eq!(none, 0, "it is not compared");
        let answer = json!({ "id": last, "role": "assistant", "parts": [] });
        let again = json!({ "id": thread, "messages": [answer, said("fifth")], "messageId": "fifth" });
        assert_eq!(read("/api/chat", again).await.0, 16, "it never arrived before");
        let answer = json!({ "role": "assistant", "content": "Hello there." });
        let messages = json!([answer, { "role": "user", "content": "hello" }]);
        let chat = json!({ "model": "pes", "messages": messages });
        assert_eq!(read("/v1/chat/completions", chat).await.0, 16, "the last answer");
        let messages = app.get(&format!("/threads/{thread}/messages?limit=1000")).await.expect(200);
        assert_eq!(contents(&messages).len(), length + 12, "nothing was superseded");
    }
}

/// What it looks for may be in none of them.
#[tokio::test]
async fn a_door_reads_some_megabytes_of_a_thread_and_no_more() {
    let (store, readers) = Moody::apart(fresh_store().await);
    let app = App::of(store, |config| {
        config.limits.body_bytes = 64 << 20;
        config.agent.history_limit = 0;
    })
    .await;
    let long = "x".repeat(1 << 20);
    let said = |id: &str, text: &str| json!({ "id": id, "role": "user", "content": text });
    let send = async |run: &str, messages: Vec<Value>| {
        let body = json!({ "threadId": "t1", "runId": run, "messages": messages, "tools": [], "context": [] });
        let answer = app.ask("POST", "/agui").json(&body).send().await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    let earlier = (0..30).map(|at| said(&format!("before {at}"), &long));
    send("r1", earlier.chain([said("first", "hello")]).collect()).await;
    readers.messages_read();
    send("r2", vec![said("unknown", "hello"), said("second", "hello")]).await;
    assert_eq!(readers.messages_read(), 20, "of 32");

    let chat = app.get("/api/chat/t1").await.expect(200);
    let shown = chat["messages"].as_array().unwrap();
    assert_eq!(shown.len(), 22, "of 34");
    let roles: Vec<_> = shown[17..].iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "user", "assistant", "user", "assistant"], "its newest ones");
}

/// Responses keep the tools that were sent with each query.
#[tokio::test]
async fn the_metadata_of_messages_counts_as_much_as_their_text() {
    let (store, readers) = Moody::apart(fresh_store().await);
    let app = App::of(store, |config| config.limits.body_bytes = 64 << 20).await;
    let tool = json!({ "type": "function", "name": "show", "description": "x".repeat(4 << 20), "parameters": {} });
    let mut last = Value::Null;
    for _ in 0..6 {
        let previous = &last["id"];
        let body = json!({ "model": "pes", "input": "hello", "tools": [tool], "tool_choice": "none", "previous_response_id": previous });
        last = app.post("/v1/responses", body).await.expect(200);
    }
    let thread = last["metadata"]["pes_thread"].as_str().unwrap();
    let chat = app.get(&format!("/api/chat/{thread}")).await.expect(200);
    assert_eq!(chat["messages"].as_array().unwrap().len(), 8, "of 12");

    readers.calls("history");
    let said = |id: &str| json!({ "id": id, "role": "user", "content": "hello" });
    let messages = [said("unknown"), said("new")];
    let body = json!({ "threadId": thread, "runId": "r1", "messages": messages, "tools": [], "context": [] });
    assert_eq!(app.ask("POST", "/agui").json(&body).send().await.status, 200);
    assert_eq!(readers.calls("history"), 8, "each reads one of the messages");
}

/// A page of large messages has fewer than 16.
#[tokio::test]
async fn a_message_that_is_sent_again_alone_is_found_behind_large_ones() {
    let app = App::with(|config| config.agent.history_limit = 0).await;
    let long = "x".repeat(900_000);
    let send = async |id: &str, text: &str| {
        let message = json!({ "id": id, "role": "user", "content": text });
        let body = json!({ "threadId": "t1", "runId": format!("r-{text:.5}-{id}"), "messages": [message], "tools": [], "context": [] });
        let answer = app.ask("POST", "/agui").json(&body).send().await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    send("first", "hello").await;
    send("second", "hello").await;
    for id in ["a", "b", "c", "d", "e"] {
        send(id, &long).await;
    }
    send("second", "again").await;
    let messages = app.get("/threads/t1/messages").await.expect(200);
    let of_user = messages["items"].as_array().unwrap().iter().filter(|message| message["role"] == "USER");
    assert_eq!(of_user.map(|message| &message["content"]).collect::<Vec<_>>(), ["hello", "again"]);
}
