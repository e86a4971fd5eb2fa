//! Server-sent events.

use serde_json::json;

use crate::support::app::App;
use crate::support::http::{soon, until};
use crate::support::store::{Mood, Moody};

#[tokio::test]
async fn a_reconnecting_source_goes_on_where_it_was() {
    let app = App::start().await;
    app.finish("t1", "count").await;
    let last = app.get("/threads/t1").await.expect(200)["lastSeq"].as_i64().unwrap();
    let source = app.ask("GET", "/threads/t1/events?after=2").header("accept", "text/event-stream");
    let mut events = source.header("last-event-id", &(last - 2).to_string()).events().await;
    for expected in [last - 1, last] {
        let event = events.next().await.unwrap();
        assert_eq!((event.id, event.data["seq"].as_i64()), (Some(expected), Some(expected)));
    }
    let caught_up = events.next().await.unwrap();
    assert_eq!((caught_up.event.as_str(), caught_up.id, &caught_up.data), ("caught_up", None, &json!({ "seq": last })));
}

#[tokio::test]
async fn a_source_may_end_with_a_run() {
    let app = App::start().await;
    let receipt = app.post("/threads/t1/process", json!({ "query": "count" })).await.expect(202);
    let path =
        format!("/threads/t1/events?until={}&types=FINAL_RESPONSE&tokens=false", receipt["runId"].as_str().unwrap());
    let events = app.ask("GET", &path).header("accept", "text/event-stream").events().await.all().await;
    let observed: Vec<_> = events.iter().filter(|event| event.event == "observation").collect();
    assert_eq!(observed.len(), 1, "{events:#?}");
    assert_eq!(observed[0].data["type"], "FINAL_RESPONSE");
    assert!(events.iter().all(|event| event.event != "token"));
    let last = events.last().unwrap();
    assert_eq!((last.event.as_str(), &last.data["status"]), ("run", &json!("completed")), "{events:#?}");
    assert!(last.data["result"].is_object());
    // A subscriber who comes after the end gets the same end.
    let late = app.ask("GET", &path).header("accept", "text/event-stream").events().await.all().await;
    assert_eq!(late.last().unwrap(), last);
    let behind = app.ask("GET", &format!("{path}&after=latest")).header("accept", "text/event-stream");
    assert_eq!(behind.events().await.all().await.last().unwrap(), last);
}

/// It subscribes after the decision that ends the run, and reads the thread after the commit of that decision.
#[tokio::test]
async fn a_source_that_comes_while_a_run_ends_gets_the_run_with_its_result() {
    let store = Moody::fresh().await;
    let app = App::of(store.clone(), |_| {}).await;
    app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
    // Of two commits, the second one ends the run.
    store.set("commit", Mood::HangsNext);
    let receipt = app.post("/threads/t1/process", json!({ "query": "hello" })).await.expect(202);
    let path = format!("/runs/{}", receipt["runId"].as_str().unwrap());
    soon(store.holds("commit")).await;
    store.set("thread", Mood::HangsNext);
    let source = app.ask("GET", "/threads/t1/events?after=latest").header("accept", "text/event-stream");
    let ending = async {
        soon(store.holds("thread")).await;
        store.set("commit", Mood::Well);
        until("the run has ended", async || app.get(&path).await.expect(200)["status"] == "completed").await;
        store.set("thread", Mood::Well);
    };
    let (mut events, ()) = tokio::join!(source.events(), ending);
    let run = loop {
        let event = events.next().await.unwrap();
        if event.event == "run" {
            break event.data;
        }
    };
    assert_eq!(run["status"], "completed");
    assert_eq!(run["result"]["response"]["content"], "Hello there.", "{run:#}");
}

#[tokio::test]
async fn a_bad_place_is_refused() {
    let app = App::start().await;
    app.finish("t1", "hello").await;
    let source = |path: &str| app.ask("GET", path).header("accept", "text/event-stream");
    source("/threads/t1/events").header("last-event-id", "x").send().await.problem("malformed");
    source("/threads/t1/events?after=soon").send().await.problem("invalid");
    source("/threads/none/events").send().await.problem("not_found");
    source("/threads/t1/events?until=run_none").send().await.problem("not_found");
}

#[tokio::test]
async fn whoever_asks_while_another_run_speaks_hears_only_their_own() {
    let app = App::start().await;
    let asked = app.suspend("t1", "send").await;
    let query = app.ask("POST", "/threads/t1/process").header("accept", "text/event-stream");
    let mut events = query.json(&json!({ "query": "count" })).events().await;
    let own = loop {
        let event = events.next().await.unwrap();
        if event.event == "run" {
            break event.data["runId"].clone();
        }
    };
    let id = &asked["suspensionId"];
    app.post("/threads/t1/resume", json!({ "suspensionId": id, "approved": true })).await.expect(202);
    let rest = events.all().await;
    let tokens: Vec<_> = rest.iter().filter(|event| event.event == "token").collect();
    assert!(!tokens.is_empty() && tokens.iter().all(|token| token.data["runId"] == own), "{tokens:#?}");
}
