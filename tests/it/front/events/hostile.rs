//! Misbehaving sockets do not slow down a run.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::support::app::App;
use crate::support::ws::{Socket, is, seqs};

#[tokio::test]
async fn a_message_that_is_too_large_closes_the_socket() {
    let app = App::start().await;
    app.finish("t1", "hello").await;
    let mut socket = app.socket("/threads/t1/events?after=latest").await;
    let fits = json!({ "op": "ping", "id": "x".repeat(65_536 - 21) }).to_string();
    assert_eq!(fits.len(), 65_536);
    socket.send(Message::text(fits)).await;
    socket.until(|frame| frame["event"] == "pong").await;
    socket.send(Message::text("x".repeat(65_537))).await;
    assert_eq!(socket.closed().await, Some(1009));
}

#[tokio::test]
async fn bytes_are_not_understood() {
    let app = App::start().await;
    app.finish("t1", "hello").await;
    let mut socket = app.socket("/threads/t1/events?after=latest").await;
    socket.send(Message::binary(vec![1, 2, 3])).await;
    assert_eq!(socket.closed().await, Some(1003));
}

#[tokio::test]
async fn a_frame_that_breaks_the_protocol_closes_the_socket() {
    let app = App::start().await;
    app.finish("t1", "hello").await;
    let frames: [(&[u8], u16, &str); 5] = [
        (&[0x81, 1, b'a'], 1002, "without a mask"),
        (&[0xc1, 0x80, 0, 0, 0, 0], 1002, "with a reserved bit"),
        (&[0x83, 0x80, 0, 0, 0, 0], 1002, "with an unknown opcode"),
        (&[0x09, 0x80, 0, 0, 0, 0], 1002, "a ping in parts"),
        (&[0x81, 0x81, 0, 0, 0, 0, 0xff], 1007, "a text that is not UTF-8"),
    ];
    for (frame, code, what) in frames {
        let mut socket = app.socket("/threads/t1/events?after=latest").await;
        socket.send_bytes(frame).await;
        assert_eq!(socket.closed().await, Some(code), "{what}");
    }
}

#[tokio::test]
async fn a_client_that_vanishes_ends_no_run() {
    let app = App::start().await;
    app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
    let mut socket = app.socket("/threads/t1/events").await;
    socket.say(json!({ "op": "process", "id": "p", "query": "count" })).await;
    let ack = socket.answer("p").await;
    drop(socket);
    let run = app.get(&format!("/runs/{}?wait=20", ack["data"]["runId"].as_str().unwrap())).await.expect(200);
    assert_eq!(run["status"], "completed");
}

/// One socket does not read while much is sent. Another one gets everything as usual; the slow one gets a gap at its
/// position, and is closed with a code that means retry.
#[tokio::test]
async fn a_slow_reader_misses_something_and_slows_nobody() {
    let app = App::with(|config| {
        config.limits.socket_queue_bytes = 64 << 10;
        config.limits.queued_runs = 10_000;
    })
    .await;
    app.post("/threads/t1/process", json!({ "query": "hang" })).await.expect(202);
    let mut slow = Socket::narrow(app.address, "/threads/t1/events?after=latest").await;
    slow.until(|frame| frame["event"] == "token").await;
    let mut quick = app.socket("/threads/t1/events?after=latest&tokens=false").await;
    let long = "a long question ".repeat(600);
    let (mut read, mut round) = (Vec::<Value>::new(), 0);
    // The kernel buffers some of it for the unread socket, on some machines a few hundred kilobytes.
    while !read.last().is_some_and(|frame| frame["event"] == "gap") {
        round += 1;
        assert!(round < 8, "all frames were sent");
        let mut told = Vec::new();
        for _ in 0..40 * round {
            app.post("/threads/t1/process", json!({ "query": long })).await.expect(202);
            told = quick.until(|frame| is(frame, "STATE_UPDATE")).await;
        }
        app.outlast_a_frame().await;
        let end = &told.last().unwrap()["data"]["seq"];
        read.extend(slow.until(|frame| frame["event"] == "gap" || frame["data"]["seq"] == *end).await);
    }
    let last = read.iter().rev().find_map(|frame| frame["data"]["seq"].as_i64()).unwrap();
    assert_eq!(read.last().unwrap()["data"]["fromSeq"], last + 1);
    assert_eq!(slow.closed().await, Some(1013));
    let mut again = app.socket(&format!("/threads/t1/events?after={last}")).await;
    let missed = seqs(&again.until(|frame| frame["event"] == "caught_up").await);
    assert_eq!(missed.first(), Some(&(last + 1)), "nothing is lost");
}
