//! A stop accepts nothing new, notifies the sockets, and keeps what is committed.

use pes::Config;
use pes::shutdown::MetricsListener;
use serde_json::json;
use tokio::net::TcpListener;

use crate::support::app::App;
use crate::support::http::{Ask, in_no_time, soon};
use crate::support::metrics::value;
use crate::support::store::{Mood, Moody};

#[tokio::test]
async fn sockets_are_told_and_closed() {
    let app = App::start().await;
    app.finish("t1", "hello").await;
    let mut socket = app.socket("/threads/t1/events?after=latest").await;
    let events = app.ask("GET", "/threads/t1/events?after=latest").header("accept", "text/event-stream");
    let mut events = events.events().await;
    socket.until(|frame| frame["event"] == "caught_up").await;
    assert_eq!(events.next().await.unwrap().event, "caught_up");
    app.stop();
    let told = socket.until(|frame| frame["event"] == "draining").await;
    assert!(told.last().unwrap()["data"]["retryInMs"].is_i64());
    assert_eq!(socket.closed().await, Some(1012));
    assert_eq!(events.all().await.last().unwrap().event, "draining");
    app.stopped().await;
}

#[tokio::test]
async fn a_server_that_leaves_is_not_ready_and_serves_on() {
    let app = App::with(|config| config.runtime.drain_delay_ms = Some(600_000)).await;
    let mut socket = app.socket("/events").await;
    app.get("/readyz").await.expect(200);
    app.stop();
    let said = loop {
        let said = app.get("/readyz").await;
        if said.status != 200 {
            break said;
        }
    };
    let problem = said.problem("draining");
    assert_eq!(problem["failing"], json!(["the server is stopping"]));
    let text = app.get("/metrics").await.text();
    let checks = ["draining", "store"].map(|check| value(&text, &format!("pes_ready{{check=\"{check}\"}}")));
    assert_eq!(checks, [0.0, 1.0]);
    app.finish("t1", "hello").await;
    let frames = socket.until(|frame| frame["data"]["lastRun"]["status"] == "completed").await;
    assert!(frames.iter().all(|frame| frame["event"] != "draining"), "{frames:#?}");
}

/// A model that never answers delays the end of the drain, so that there is time for requests.
#[tokio::test]
async fn a_stopping_server_takes_nothing_new_and_says_so() {
    let app = App::with(|config| config.runtime.drain_ms = 5_000).await;
    app.post("/threads/t1/process", json!({ "query": "hang" })).await.expect(202);
    let mut socket = app.socket("/threads/t1/events").await;
    socket.until(|frame| frame["event"] == "token").await;
    let requests = async {
        app.stop();
        socket.until(|frame| frame["event"] == "draining").await;
        let problem = app.get("/readyz").await.problem("draining");
        assert_eq!(problem["failing"], json!(["the server is stopping"]));
        app.post("/threads/t1/process", json!({ "query": "hello" })).await.problem("draining");
        app.post("/threads/t1/cancel", json!({})).await.problem("draining");
        assert_eq!(app.get("/threads/t1").await.expect(200)["status"], "running");
    };
    in_no_time(requests).await;
    app.stopped().await;
}

#[tokio::test]
async fn whoever_waits_is_answered_before_the_end() {
    let app = App::with(|config| config.runtime.drain_ms = 5_000).await;
    app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
    let mut socket = app.socket("/threads/t1/events").await;
    let asked = app.ask("POST", "/threads/t1/process").header("prefer", "wait=100").json(&json!({ "query": "hang" }));
    let stop = async {
        socket.until(|frame| frame["event"] == "token").await;
        app.stop();
    };
    let (said, ()) = tokio::join!(asked.send(), stop);
    assert_eq!(said.expect(202)["status"], "running");
    app.stopped().await;
}

#[tokio::test]
async fn a_scrape_that_the_store_leaves_waiting_does_not_hold_up_the_end() {
    let store = Moody::fresh().await;
    let app = pes::app::App::with_store(store.clone(), Config::default()).await.unwrap_or_else(|e| panic!("{e}"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let metrics = MetricsListener::serve(listener, app.state(address).unwrap());
    store.set("figures", Mood::Hangs);
    let scraping = tokio::spawn(async move { Ask::new(address, "GET", "/metrics").send().await.status });
    soon(store.holds("figures")).await;
    soon(metrics.close()).await;
    assert!(!scraping.is_finished(), "it waits for the store");
    store.set("figures", Mood::Well);
    assert_eq!(soon(scraping).await.unwrap(), 200);
    soon(app.close()).await;
}
