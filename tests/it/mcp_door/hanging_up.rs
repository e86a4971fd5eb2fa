//! A client that closes the stream of a call cancels the request, since version 2026-07-28.

use serde_json::{Value, json};

use super::host::{Host, MIDDLE, NEW, OLD};
use crate::support::app::App;
use crate::support::http::soon;
use crate::support::store::{Mood, Moody, fresh_store};

/// Calls `ask`, and disconnects once the run exists; returns the run.
async fn hung_up(app: &App, host: Host, arguments: Value) -> String {
    let stream = host.events(app, "ask", arguments).await;
    let runs = app.get("/runs").await.expect(200);
    let run = runs["items"][0]["runId"].as_str().expect("it was accepted").to_owned();
    drop(stream);
    run
}

async fn status(app: &App, run: &str, wait: u32) -> Value {
    app.get(&format!("/runs/{run}?wait={wait}")).await.expect(200)["status"].clone()
}

#[tokio::test]
async fn a_request_that_is_taken_back_stops_its_run() {
    let app = App::start().await;
    let run = hung_up(&app, NEW, json!({ "query": "hang" })).await;
    assert_eq!(soon(status(&app, &run, 20)).await, "cancelled");
}

#[tokio::test]
async fn a_request_that_is_taken_back_stops_its_run_also_where_the_store_did_not_answer() {
    let store = Moody::fresh().await;
    let app = App::of(store.clone(), |_| {}).await;
    let stream = NEW.events(&app, "ask", json!({ "query": "hang" })).await;
    let run = app.get("/runs").await.expect(200)["items"][0].clone();
    let thread = run["threadId"].as_str().expect("it was accepted");
    // The model hangs, and the call waits for its run: neither needs this store call any more.
    let path = format!("/threads/{thread}/events?types=LLM_STREAM_START&tokens=false");
    let mut events = app.ask("GET", &path).header("accept", "text/event-stream").events().await;
    while events.next().await.expect("it goes on").event != "observation" {}
    while store.calls("find_row") == 0 {
        app.get("/healthz").await.expect(200);
    }
    store.set("find_row", Mood::FailsNext);
    drop(stream);
    soon(store.holds("find_row")).await;
    store.set("find_row", Mood::Well);
    assert_eq!(soon(status(&app, run["runId"].as_str().unwrap(), 20)).await, "cancelled");
}

#[tokio::test]
async fn what_is_not_taken_back_goes_on() {
    for (host, arguments) in [
        (OLD, json!({ "query": "hang" })),
        (MIDDLE, json!({ "query": "hang" })),
        (NEW, json!({ "query": "hang", "idempotencyKey": "k" })),
    ] {
        let app = App::start().await;
        let run = hung_up(&app, host, arguments.clone()).await;
        // Long enough for a cancelled run to have ended.
        assert_eq!(status(&app, &run, 1).await, "running", "{host:?} {arguments}");
    }
}

/// A client that stops waiting for a run does not stop it: it may be another client's.
#[tokio::test]
async fn to_look_is_not_to_own() {
    let app = App::start().await;
    let run = NEW.data(&app, "start", json!({ "query": "hang" })).await["runId"].clone();
    drop(NEW.events(&app, "status", json!({ "runId": run, "wait": 30 })).await);
    assert_eq!(status(&app, run.as_str().unwrap(), 1).await, "running");
}

#[tokio::test]
async fn a_server_that_stops_says_how_it_stands() {
    let store = fresh_store().await;
    // Longer than the next call takes: the call that never returns holds up the stop for so long.
    let app = App::of(store.clone(), |config| config.runtime.drain_ms = 7_000).await;
    let stream = NEW.events(&app, "ask", json!({ "query": "hang", "wait": 300 })).await;
    app.stop();
    let events = stream.all().await;
    let data = &events[0].data["result"]["structuredContent"];
    assert_eq!(data["status"], "running", "{events:#?}");
    let call = json!({ "name": "ask", "arguments": { "query": "hello" } });
    let refused = OLD.request(&app, "tools/call", call).send().await;
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.expect(503)["error"]["data"]["code"], "draining");
    app.stopped().await;
    let app = App::of(store, |_| {}).await;
    assert_eq!(status(&app, data["runId"].as_str().unwrap(), 0).await, "running", "no client took it back");
}
