//! Connections between two requests.

use std::time::Duration;

use futures_util::future::select_all;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::{pause, resume, sleep};

use super::limits::until_served;
use crate::support::app::App;
use crate::support::http::{read_answer, soon};
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

/// Open connections without requests keep nobody else out.
#[tokio::test]
async fn idle_connections_make_room_where_few_places_are_left() {
    let app = App::with(|config| (config.limits.connections, config.limits.header_timeout_ms) = (4, 300)).await;
    let mut idle = Vec::new();
    for _ in 0..4 {
        idle.push(used(&app).await);
    }
    let (said, first, _) = soon(select_all(idle.iter_mut().map(|stream| Box::pin(read_answer(stream))))).await;
    assert!(said.is_none(), "it is closed without a word");
    // Its place is free once the server has seen it closed on both sides.
    idle.swap_remove(first);
    until_served(async || app.get("/threads").await, "too_many_connections").await;
}
