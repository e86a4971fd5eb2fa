//! The WebSocket: the backlog, then live observations and tokens.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::support::app::App;
use crate::support::store::fresh_store;
use crate::support::ws::{is, seqs};

async fn last_seq(app: &App) -> i64 {
    app.get("/threads/t1").await.expect(200)["lastSeq"].as_i64().unwrap()
}

#[tokio::test]
async fn a_run_is_watched_from_its_beginning() {
    let app = App::start().await;
    app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
    let mut socket = app.socket("/threads/t1/events").await;
    socket.until(|frame| frame["event"] == "caught_up").await;
    app.post("/threads/t1/process", json!({ "query": "count" })).await.expect(202);
    let frames = socket.until(|frame| frame["event"] == "run" && frame["data"]["status"] == "completed").await;
    assert!(frames.iter().any(|frame| is(frame, "RUN_FINISHED")), "whoever hears that it is over has heard all of it");
    let seen = seqs(&frames);
    assert_eq!(seen, (seen[0]..=*seen.last().unwrap()).collect::<Vec<_>>(), "no gap and no duplicate");
    let tokens: Vec<&Value> =
        frames.iter().filter(|frame| frame["event"] == "token").map(|frame| &frame["data"]).collect();
    assert!(tokens.iter().all(|token| token["type"] == "TOKEN" && token["runId"].is_string()));
    let end = frames.iter().rfind(|frame| is(frame, "LLM_STREAM_END")).unwrap();
    let stream = &end["data"]["content"]["streamId"];
    let said: String = tokens
        .iter()
        .filter(|token| &token["streamId"] == stream)
        .map(|token| token["data"].as_str().unwrap())
        .collect();
    assert_eq!(said, "Two and two are four.");
    assert_eq!(end["data"]["content"]["text"], "Two and two are four.", "the end holds the whole");
}

#[tokio::test]
async fn whoever_reconnects_gets_what_was_missed_once() {
    let app = App::start().await;
    app.finish("t1", "count").await;
    let last = last_seq(&app).await;
    for after in [0, 1, last - 1, last] {
        let mut socket = app.socket(&format!("/threads/t1/events?after={after}")).await;
        let frames = socket.until(|frame| frame["event"] == "caught_up").await;
        assert_eq!(seqs(&frames), (after + 1..=last).collect::<Vec<_>>());
    }
    let mut socket = app.socket("/threads/t1/events?after=latest").await;
    assert_eq!(socket.next().await.unwrap(), json!({ "event": "caught_up", "data": { "seq": last } }));
}

/// Sockets that open and close during a run get every observation exactly once, wherever they start.
#[tokio::test]
async fn reconnecting_in_the_middle_of_a_run_loses_nothing() {
    let app = App::start().await;
    app.post("/threads/t1/process", json!({ "query": "count" })).await.expect(202);
    let mut seen = Vec::new();
    loop {
        let after = seen.last().copied().unwrap_or(0);
        let mut socket = app.socket(&format!("/threads/t1/events?after={after}")).await;
        let frames = socket.until(|frame| frame["event"] == "observation").await;
        seen.extend(seqs(&frames));
        if frames.iter().any(|frame| is(frame, "RUN_FINISHED")) {
            break;
        }
    }
    assert_eq!(seen, (1..=last_seq(&app).await).collect::<Vec<_>>());
}

/// The demo has sent `one two three` and is silent since: a late socket gets it in one frame.
#[tokio::test]
async fn a_late_socket_gets_the_tokens_that_were_said() {
    let app = App::start().await;
    app.post("/threads/t1/process", json!({ "query": "hang" })).await.expect(202);
    let mut early = app.socket("/threads/t1/events").await;
    let mut said = String::new();
    while said != "one two three" {
        let frame = early.next().await.unwrap();
        if frame["event"] == "token" {
            assert_eq!(frame["data"]["offset"], said.len());
            said.push_str(frame["data"]["data"].as_str().unwrap());
        }
    }
    let mut late = app.socket("/threads/t1/events?after=latest").await;
    let frames = late.until(|frame| frame["event"] == "token").await;
    let token = &frames.last().unwrap()["data"];
    assert_eq!((&token["data"], &token["offset"]), (&json!("one two three"), &json!(0)));
    assert_eq!(token["tokenType"], "PLANNING_LLM_RESPONSE");
}

#[tokio::test]
async fn types_and_tokens_are_chosen() {
    let app = App::start().await;
    app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
    let mut socket = app.socket("/threads/t1/events?types=PLAN,RUN_FINISHED&tokens=false").await;
    app.post("/threads/t1/process", json!({ "query": "count" })).await.expect(202);
    let frames = socket.until(|frame| is(frame, "RUN_FINISHED")).await;
    assert!(frames.iter().all(|frame| frame["event"] != "token"));
    let kinds: Vec<_> =
        frames.iter().filter(|frame| frame["event"] == "observation").map(|frame| &frame["data"]["type"]).collect();
    assert_eq!(kinds, ["PLAN", "RUN_FINISHED"]);
}

#[tokio::test]
async fn a_socket_needs_a_thread_and_a_handshake() {
    let app = App::start().await;
    let (status, problem) = app.try_socket("/threads/none/events", &[]).await.err().unwrap();
    assert_eq!((status, &problem["code"]), (404, &json!("not_found")));
    app.finish("t1", "hello").await;
    let (status, problem) = app.try_socket("/threads/t1/events?after=soon", &[]).await.err().unwrap();
    assert_eq!((status, &problem["errors"][0]["pointer"]), (422, &json!("?after")));
    let bad = app.ask("GET", "/threads/t1/events").header("upgrade", "websocket").header("sec-websocket-version", "8");
    bad.send().await.problem("malformed");
    let socket = app.try_socket("/threads/t1/events", &[("sec-websocket-protocol", "other, pes.v1")]).await.unwrap();
    assert_eq!(socket.response.headers()["sec-websocket-protocol"], "pes.v1");
    let plain = app.socket("/threads/t1/events").await;
    assert!(!plain.response.headers().contains_key("sec-websocket-protocol"));
}

#[tokio::test]
async fn a_close_is_answered() {
    let app = App::start().await;
    app.finish("t1", "hello").await;
    let mut socket = app.socket("/threads/t1/events").await;
    socket.until(|frame| frame["event"] == "caught_up").await;
    let frame = CloseFrame { code: CloseCode::Normal, reason: "that is all".into() };
    socket.send(Message::Close(Some(frame))).await;
    assert_eq!(socket.closed().await, Some(1000));
}

#[tokio::test]
async fn compression_is_not_offered() {
    let app = App::start().await;
    app.finish("t1", "hello").await;
    let wanted = [("sec-websocket-extensions", "permessage-deflate; client_max_window_bits")];
    let mut socket = app.try_socket("/threads/t1/events", &wanted).await.unwrap();
    assert!(!socket.response.headers().contains_key("sec-websocket-extensions"));
    socket.until(|frame| frame["event"] == "caught_up").await;
}

/// Two servers on one store. The other one's observations are not published here, so they are read from the store
/// first.
#[tokio::test]
async fn what_another_server_wrote_is_not_skipped() {
    let store = fresh_store().await;
    let (here, there) = (App::of(store.clone(), |_| {}).await, App::of(store, |_| {}).await);
    here.finish("t1", "hello").await;
    let mut socket = here.socket("/threads/t1/events").await;
    let mut frames = socket.until(|frame| frame["event"] == "caught_up").await;
    there.finish("t1", "hello").await;
    let receipt = here.post("/threads/t1/process", json!({ "query": "hello" })).await.expect(202);
    let is_told = |frame: &Value| frame["event"] == "observation" && frame["data"]["runId"] == receipt["runId"];
    frames.extend(socket.until(is_told).await);
    let seqs = seqs(&frames);
    assert!(seqs.iter().copied().eq(1..=seqs.len() as i64), "{seqs:?}");
}

#[tokio::test]
async fn a_call_that_begins_is_told_with_its_rule_before_it_is_over() {
    let app = App::start().await;
    let asked = app.suspend("t1", "send").await;
    let mut socket = app.socket("/threads/t1/events?after=latest").await;
    socket.until(|frame| frame["event"] == "caught_up").await;
    let body = json!({ "suspensionId": asked["suspensionId"], "approved": true });
    app.post("/threads/t1/resume", body).await.expect(202);
    let frames = socket.until(|frame| is(frame, "TOOL_EXECUTION")).await;
    let started: Vec<&Value> = frames.iter().filter(|frame| frame["event"] == "tool_started").collect();
    let [started] = started[..] else { panic!("{frames:#?}") };
    let data = &started["data"];
    assert_eq!((&data["callId"], &data["digest"]), (&asked["callId"], &asked["digest"]));
    assert_eq!((&data["toolName"], &data["parentId"]), (&json!("demo_send_email"), &json!("mail")));
    assert_eq!((&data["policy"], &data["attempt"], data.get("seq")), (&asked["policy"], &json!(1), None));
}
