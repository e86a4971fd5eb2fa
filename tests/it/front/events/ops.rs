//! The ops that a client sends over a socket.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::http::{pass, soon};
use crate::support::postgres::Database;
use crate::support::store::{Mood, Moody};
use crate::support::ws::{Socket, is};

async fn idle(app: &App) -> Socket {
    app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
    app.socket("/threads/t1/events").await
}

async fn say(socket: &mut Socket, op: Value) -> Value {
    let id = op["id"].as_str().unwrap().to_owned();
    socket.say(op).await;
    socket.answer(&id).await
}

#[tokio::test]
async fn a_whole_run_over_one_socket() {
    let app = App::start().await;
    let mut socket = idle(&app).await;
    let ack = say(&mut socket, json!({ "op": "process", "id": "p", "query": "send" })).await;
    assert_eq!(ack["event"], "ack", "{ack:#}");
    assert_eq!(ack["data"]["eventsUrl"], format!("http://{}/threads/t1/events", app.address));
    let run = app.get(&format!("/runs/{}?wait=20", ack["data"]["runId"].as_str().unwrap())).await.expect(200);
    assert_eq!(run["status"], "suspended");
    let inbox = app.get("/suspensions").await.expect(200);
    let id = &inbox["items"][0]["suspensionId"];
    let mut again = app.socket("/threads/t1/events").await;
    let ack = say(&mut again, json!({ "op": "resume", "id": "r", "suspensionId": id, "approved": true })).await;
    assert_eq!(ack["event"], "ack", "{ack:#}");
    again.until(|frame| is(frame, "RUN_FINISHED")).await;
    let nack = say(&mut again, json!({ "op": "resume", "id": "s", "suspensionId": id, "approved": true })).await;
    assert_eq!(nack["data"]["problem"]["code"], "already_resolved");
    assert_eq!(nack["data"]["problem"]["status"], 409);
}

/// A browser cannot set headers on an upgrade: an op may name its trace itself.
#[tokio::test]
async fn a_query_over_a_socket_continues_a_trace() {
    let app = App::start().await;
    let mut socket = idle(&app).await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    let named = json!({ "op": "process", "id": "p", "query": "count", "traceparent": parent });
    let mut runs = Vec::new();
    for op in [
        named,
        json!({ "op": "process", "id": "q", "query": "count" }),
        json!({ "op": "process", "id": "r", "query": "count" }),
    ] {
        let ack = say(&mut socket, op).await;
        runs.push(app.get(&format!("/runs/{}", ack["data"]["runId"].as_str().unwrap())).await.expect(200));
    }
    assert_eq!(runs[0]["traceId"], trace);
    assert!(runs[1]["traceId"] != trace && runs[1]["traceId"] == runs[2]["traceId"], "that of the upgrade");
}

#[tokio::test]
async fn pause_and_cancel_are_ops() {
    let app = App::start().await;
    let mut socket = idle(&app).await;
    let nack = say(&mut socket, json!({ "op": "pause", "id": "0" })).await;
    assert_eq!(nack["data"]["problem"]["code"], "nothing_to_pause");
    say(&mut socket, json!({ "op": "process", "id": "1", "query": "hang" })).await;
    assert_eq!(say(&mut socket, json!({ "op": "pause", "id": "2" })).await["event"], "ack");
    let ack = say(&mut socket, json!({ "op": "cancel", "id": "3" })).await;
    assert_eq!(ack["data"]["runIds"].as_array().unwrap().len(), 1, "{ack:#}");
    assert_eq!(
        say(&mut socket, json!({ "op": "ping", "id": "4" })).await,
        json!({ "event": "pong", "data": { "id": "4" } })
    );
}

#[tokio::test]
async fn a_subscription_can_be_changed() {
    let app = App::start().await;
    app.finish("t1", "count").await;
    let mut socket = app.socket("/threads/t1/events?after=latest").await;
    socket.until(|frame| frame["event"] == "caught_up").await;
    let ack =
        say(&mut socket, json!({ "op": "subscribe", "id": "1", "after": 0, "types": ["PLAN"], "tokens": false })).await;
    assert_eq!(ack["event"], "ack");
    let frames = socket.until(|frame| frame["event"] == "caught_up").await;
    assert_eq!(frames.len(), 2, "{frames:#?}");
    assert!(is(&frames[0], "PLAN"));
}

#[tokio::test]
async fn bad_ops_are_refused_with_the_codes_of_rest() {
    let app = App::start().await;
    let mut socket = idle(&app).await;
    for (op, code, pointer) in [
        (json!({ "op": "dance", "id": "x" }), "invalid", "/op"),
        (json!({ "op": "process", "id": "x" }), "invalid", "/query"),
        (json!({ "op": "process", "id": "x", "query": "" }), "invalid", "/query"),
        (json!({ "op": "process", "id": "x", "query": "q", "nope": 1 }), "invalid", "/nope"),
        (json!({ "op": "resume", "id": "x", "suspensionId": "sus_none", "approved": true }), "not_found", ""),
        (json!({ "op": "cancel", "id": "x", "runId": "r" }), "invalid", "/runId"),
        (json!({ "op": "subscribe", "id": "x", "after": "soon" }), "invalid", "/after"),
        (json!({ "op": "subscribe", "id": "x", "after": -1 }), "invalid", "/after"),
        (json!({ "op": "subscribe", "id": "x", "types": ["NOISE"] }), "invalid", "/types/0"),
        (json!({ "op": "process", "id": "x", "query": "q", "idempotencyKey": "a b" }), "malformed", ""),
        (json!({ "op": "process", "id": "x", "query": "q", "idempotencyKey": 5 }), "invalid", "/idempotencyKey"),
        (json!({ "op": "process", "id": "x", "query": "q", "traceparent": 5 }), "invalid", "/traceparent"),
        (json!({ "op": "ping", "id": "x", "nope": 1 }), "invalid", "/nope"),
        (json!({ "op": 5, "id": "x" }), "malformed", ""),
        (json!({ "id": "x" }), "malformed", ""),
    ] {
        let nack = say(&mut socket, op).await;
        let problem = &nack["data"]["problem"];
        assert_eq!((&nack["event"], &problem["code"]), (&json!("nack"), &json!(code)), "{nack:#}");
        let pointers: Vec<_> =
            problem["errors"].as_array().into_iter().flatten().map(|error| &error["pointer"]).collect();
        let expected = Some(pointer).filter(|pointer| !pointer.is_empty());
        assert_eq!(pointers, Vec::from_iter(expected), "{nack:#}");
        assert!(problem["traceId"].is_string() && problem["status"].is_i64());
    }
    for text in ["", "{", "[]", "{\"id\":1}", "{\"op\":\"ping\",\"op\":\"ping\"}", "{\"op\":1}"] {
        socket.send(tokio_tungstenite::tungstenite::Message::text(text)).await;
        let nack = socket.until(|frame| frame["event"] == "nack").await.pop().unwrap();
        assert_eq!(nack["data"]["problem"]["code"], "malformed", "{text}: {nack:#}");
    }
}

/// A server whose engine reads over one connection to PostgreSQL.
async fn with_one_connection(database: &Database) -> App {
    let url = database.url();
    App::with(|config| {
        (config.store.url, config.store.connections) = (Some(url.into()), 2);
        config.limits.socket_queue_bytes = 4096;
    })
    .await
}

#[tokio::test]
async fn ops_that_come_together_do_not_wait_for_each_other() {
    let database = Database::fresh().await;
    let app = with_one_connection(&database).await;
    let mut socket = idle(&app).await;
    let process = json!({ "op": "process", "id": "p", "query": "hello" });
    socket.say_at_once(vec![process, json!({ "op": "subscribe", "id": "s" })]).await;
    let mut asked = vec!["p", "s"];
    while !asked.is_empty() {
        let frame = socket.next().await.unwrap();
        if let Some(at) = asked.iter().position(|id| frame["data"]["id"] == *id) {
            assert_eq!(frame["event"], "ack", "{frame:#}");
            asked.remove(at);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ops_that_come_together_are_done_in_the_order_that_they_were_sent_in() {
    const BURST: usize = 8;
    let app = App::start().await;
    let mut socket = idle(&app).await;
    let mut sent = Vec::new();
    for burst in 0..4 {
        let ids: Vec<String> = (0..BURST).map(|nth| format!("{burst}-{nth}")).collect();
        let op = |id: &String| json!({ "op": "process", "id": id, "query": "hello", "onBusy": "enqueue" });
        socket.say_at_once(ids.iter().map(op).collect()).await;
        let mut runs = BTreeMap::new();
        while runs.len() < BURST {
            let frame = socket.next().await.unwrap();
            assert_ne!(frame["event"], "nack", "{frame:#}");
            if frame["event"] == "ack" {
                let data = &frame["data"];
                runs.insert(data["id"].as_str().unwrap().to_owned(), data["runId"].as_str().unwrap().to_owned());
            }
        }
        for run in runs.values() {
            assert_eq!(app.get(&format!("/runs/{run}?wait=20")).await.expect(200)["status"], "completed");
        }
        sent.extend(ids.iter().map(|id| runs[id].clone()));
        // Whether there is something to cancel depends on the op before it.
        let process = json!({ "op": "process", "id": "p", "query": "hang" });
        socket.say_at_once(vec![process, json!({ "op": "cancel", "id": "c" })]).await;
        let ack = socket.answer("c").await;
        let run = ack["data"]["runIds"][0].as_str().unwrap_or_else(|| panic!("{ack:#}")).to_owned();
        assert_eq!(app.get(&format!("/runs/{run}?wait=20")).await.expect(200)["status"], "cancelled");
        sent.push(run);
    }
    let log = app.get("/threads/t1/events?types=RUN_STARTED&limit=200").await.expect(200);
    let begun: Vec<&str> =
        log["items"].as_array().unwrap().iter().map(|item| item["runId"].as_str().unwrap()).collect();
    assert_eq!(begun, sent);
}

/// Ops of a closed socket release their store connections, although no response can be sent.
#[tokio::test]
async fn a_client_that_does_not_read_keeps_nothing_from_others() {
    let database = Database::fresh().await;
    let app = with_one_connection(&database).await;
    for _ in 0..4 {
        app.finish("t1", "count").await;
    }
    let mut deaf = Socket::narrow(app.address, "/threads/t1/events?after=latest").await;
    let mut ops = vec![json!({ "op": "subscribe", "id": "s" })];
    ops.extend((0..24).map(|nth| json!({ "op": "pause", "id": nth.to_string() })));
    deaf.say_at_once(ops).await;
    for nth in 0..32 {
        app.post(&format!("/threads/other-{nth}/process"), json!({ "query": "hello" })).await.expect(202);
    }
    deaf.answer("23").await;
}

const BOSS: &str = "boss-0123456789abcdef0123456789ab";

/// A server over this store, a socket of a key that was made there, and the paths of that key and of another.
async fn with_made_key(store: Arc<Moody>) -> (App, Socket, [String; 2]) {
    let app = App::of(store, |config| {
        config.auth.keys = vec![format!("one/boss:admin:{BOSS}").parse().unwrap()];
    });
    let app = app.await.key(BOSS);
    app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
    let make = async |name: &str| {
        let new = json!({ "tenant": "one", "name": name, "scopes": ["read", "run"] });
        app.post("/keys", new).await.expect(201)
    };
    let (mine, other) = (make("mine").await, make("other").await);
    let bearer = format!("Bearer {}", mine["key"].as_str().unwrap());
    let mut socket = Socket::open(app.address, "/threads/t1/events", &[("authorization", &bearer)]).await.unwrap();
    assert_eq!(socket.next().await.unwrap()["event"], "caught_up");
    let paths = [mine, other].map(|made| format!("/keys/{}", made["keyId"].as_str().unwrap()));
    (app, socket, paths)
}

/// Frames do not wait for a slow store; an op does.
#[tokio::test]
async fn an_op_is_not_done_before_its_key_was_checked() {
    let store = Moody::fresh().await;
    let (app, mut socket, [mine, _]) = with_made_key(store.clone()).await;
    store.set("key_by_hash", Mood::Hangs);
    assert_eq!(app.ask("DELETE", &mine).send().await.status, 204);
    socket.say(json!({ "op": "process", "id": "1", "query": "hello" })).await;
    soon(store.holds("key_by_hash")).await;
    // Longer than a stream waits for a check of its credentials.
    pass(Duration::from_secs(1)).await;
    store.set("key_by_hash", Mood::Well);
    assert_eq!(socket.next().await, Err(Some(1008)));
    assert_eq!(app.get("/threads/t1/runs").await.expect(200)["items"], json!([]));
}

#[tokio::test]
async fn an_op_whose_key_cannot_be_checked_is_refused() {
    let store = Moody::fresh().await;
    let (app, mut socket, [_, other]) = with_made_key(store.clone()).await;
    // What is known of keys is forgotten when one of them is revoked.
    assert_eq!(app.ask("DELETE", &other).send().await.status, 204);
    store.set("key_by_hash", Mood::Fails);
    for op in ["process", "subscribe"] {
        let body = if op == "process" { json!({ "query": "hello" }) } else { json!({ "after": 0 }) };
        let mut asked = json!({ "op": op, "id": op });
        asked.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        let nack = say(&mut socket, asked).await;
        assert_eq!(nack["data"]["problem"]["code"], "store_unavailable", "{nack:#}");
    }
    assert_eq!(app.get("/threads/t1/runs").await.expect(200)["items"], json!([]));
    store.set("key_by_hash", Mood::Well);
    assert_eq!(say(&mut socket, json!({ "op": "process", "id": "2", "query": "hello" })).await["event"], "ack");
}
