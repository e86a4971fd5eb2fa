//! Connections between two requests.

use std::time::Duration;

use futures_util::future::select_all;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::{pause, resume, sleep};

use super::limits::until_served;
use crate::support::app::App;
use crate::support::http::{in_no_time, read_answer, soon, until};
use crate::support::store::Moody;

/// A connection on which one request was answered.
async fn used(app: &App) -> BufReader<TcpStream> {
    let mut stream = BufReader::new(TcpStream::connect(app.address).await.unwrap());
    again(&mut stream).await;
    stream
}

async fn again(stream: &mut BufReader<TcpStream>) {
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert_eq!(soon(read_answer(stream)).await.expect("it is open").status, 200);
}

async fn pass(seconds: u64) {
    pause();
    sleep(Duration::from_secs(seconds)).await;
    resume();
}

#[tokio::test]
async fn an_idle_connection_outlives_those_of_proxies_and_half_a_head_does_not() {
    let app = App::of(Moody::fresh().await, |_| {}).await;
    let (mut idle, mut half) = (used(&app).await, used(&app).await);
    pass(70).await;
    again(&mut idle).await;
    again(&mut half).await;
    half.write_all(b"GET /healthz HTTP/1.1\r\nhost: loc").await.unwrap();
    // The data written is read before the clock advances.
    again(&mut idle).await;
    pass(11).await;
    soon(read_answer(&mut half)).await.expect("an answer").problem("request_timeout");
    again(&mut idle).await;
    pass(80).await;
    assert!(soon(read_answer(&mut idle)).await.is_none(), "it is closed without a word");
}

/// So that a proxy has no connection left on which it could send a request just when the server closes it.
#[tokio::test]
async fn while_the_server_leaves_each_response_ends_its_connection() {
    let app = App::with(|config| config.runtime.drain_delay_ms = Some(600_000)).await;
    let mut kept = used(&app).await;
    app.stop();
    until("the server leaves", async || app.get("/readyz").await.status == 503).await;
    kept.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let said = soon(read_answer(&mut kept)).await.expect("it is open");
    assert_eq!((said.status, said.header("connection")), (200, Some("close")));
    assert!(soon(read_answer(&mut kept)).await.is_none(), "it is closed");
    let mut socket = app.socket("/events").await;
    socket.until(|frame| frame["event"] == "caught_up").await;
}

/// Open connections without requests keep nobody else out.
#[tokio::test]
async fn idle_connections_make_room_where_few_places_are_left() {
    let app = App::with(|config| (config.limits.connections, config.limits.header_timeout_ms) = (4, 300)).await;
    let mut idle = Vec::new();
    let requests = async {
        for _ in 0..4 {
            idle.push(used(&app).await);
        }
    };
    in_no_time(requests).await;
    let (said, first, _) = soon(select_all(idle.iter_mut().map(|stream| Box::pin(read_answer(stream))))).await;
    assert!(said.is_none(), "it is closed without a word");
    // Its place is free once the server has seen it closed on both sides.
    idle.swap_remove(first);
    until_served(async || app.get("/threads").await, "too_many_connections").await;
}

/// A client that writes the head before the body does not lose its next request.
#[tokio::test]
async fn a_refusal_before_the_body_keeps_the_connection() {
    let app = App::with(|_| {}).await;
    let (mut stream, mut other) = (used(&app).await, used(&app).await);
    stream.write_all(b"POST /nowhere HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n").await.unwrap();
    // The head is read before the body is sent.
    again(&mut other).await;
    stream.write_all(b"{}").await.unwrap();
    let said = soon(read_answer(&mut stream)).await.expect("an answer");
    assert_eq!((said.status, said.header("connection")), (404, None));
    again(&mut stream).await;
}

/// Its end is known only from the last chunk.
#[tokio::test]
async fn a_body_in_chunks_that_was_read_keeps_the_connection() {
    let app = App::with(|_| {}).await;
    let mut stream = used(&app).await;
    let head = b"POST /threads HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
        transfer-encoding: chunked\r\nexpect: 100-continue\r\n\r\n";
    stream.write_all(head).await.unwrap();
    assert_eq!(soon(read_answer(&mut stream)).await.expect("it asks for the body").status, 100);
    stream.write_all(b"2\r\n{}\r\n0\r\n\r\n").await.unwrap();
    let said = soon(read_answer(&mut stream)).await.expect("an answer");
    assert_eq!((said.status, said.header("connection")), (201, None));
    again(&mut stream).await;
}

#[tokio::test]
async fn a_refusal_of_a_long_body_says_that_the_connection_closes() {
    let app = App::with(|_| {}).await;
    let mut stream = used(&app).await;
    let head = format!("POST /nowhere HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", (64 << 10) + 1);
    stream.write_all(head.as_bytes()).await.unwrap();
    let said = soon(read_answer(&mut stream)).await.expect("an answer");
    assert_eq!((said.status, said.header("connection")), (404, Some("close")));
    assert!(soon(read_answer(&mut stream)).await.is_none(), "it is closed");
}

#[tokio::test]
async fn a_refusal_waits_a_moment_for_the_body_and_asks_for_none_that_was_announced() {
    let app = App::of(Moody::fresh().await, |_| {}).await;
    let mut stream = used(&app).await;
    let head = "POST /nowhere HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n";
    stream.write_all(format!("{head}expect: 100-continue\r\n\r\n").as_bytes()).await.unwrap();
    let said = soon(read_answer(&mut stream)).await.expect("an answer");
    assert_eq!((said.status, said.header("connection")), (404, Some("close")));

    let (mut stream, mut other) = (used(&app).await, used(&app).await);
    stream.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
    // The data written is read before the clock advances.
    again(&mut other).await;
    pass(2).await;
    let said = soon(read_answer(&mut stream)).await.expect("an answer");
    assert_eq!((said.status, said.header("connection")), (404, Some("close")));
}
