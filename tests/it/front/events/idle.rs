//! Sockets without traffic.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::{Instant, pause, resume, sleep};

use crate::support::app::App;
use crate::support::http::soon;
use crate::support::store::Moody;

#[tokio::test]
async fn a_client_that_answers_no_ping_is_let_go_and_one_that_does_stays() {
    let app = App::of(Moody::fresh().await, |_| {}).await;
    app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
    let (mut mute, mut lively) = (app.socket("/threads/t1/events").await, app.socket("/threads/t1/events").await);
    for socket in [&mut mute, &mut lively] {
        socket.until(|frame| frame["event"] == "caught_up").await;
    }
    pause();
    // Reading a socket answers its pings; the other socket is not read until it must be closed.
    let watched =
        tokio::spawn(async move { while lively.hear().await.expect("it stays open")["event"] != "observation" {} });
    sleep(Duration::from_secs(25)).await;
    sleep(Duration::from_secs(25)).await;
    resume();
    assert_eq!(mute.closed().await, None, "it is gone without a word");
    app.post("/threads/t1/process", json!({ "query": "hello" })).await.expect(202);
    watched.await.expect("it hears what comes");
}

#[tokio::test]
async fn a_silent_stream_says_something_every_fifteen_seconds() {
    let app = App::of(Moody::fresh().await, |_| {}).await;
    app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
    let mut stream = TcpStream::connect(app.address).await.unwrap();
    let ask = "GET /threads/t1/events HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n";
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut lines = BufReader::new(stream).lines();
    while !soon(lines.next_line()).await.unwrap().unwrap().contains("caught_up") {}
    pause();
    let mut began = Instant::now();
    for _ in 0..3 {
        while lines.next_line().await.unwrap().unwrap() != ": still here" {}
        let seconds = began.elapsed().as_secs();
        assert!((14..20).contains(&seconds), "{seconds} s");
        began = Instant::now();
    }
}
