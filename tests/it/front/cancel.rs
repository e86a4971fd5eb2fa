//! Cancel and pause.

use serde_json::json;

use crate::support::app::App;
use crate::support::http::soon;
use crate::support::store::{Mood, Moody};

#[tokio::test]
async fn a_thread_is_cancelled_with_its_queue() {
    let app = App::start().await;
    app.post("/threads/t1/process", json!({ "query": "hang" })).await.expect(202);
    app.post("/threads/t1/process", json!({ "query": "hello" })).await.expect(202);
    let cancelled = app.ask("POST", "/threads/t1/cancel").send().await.expect(202);
    assert_eq!(cancelled["runIds"].as_array().unwrap().len(), 2, "{cancelled:#}");
    let runs = app.get("/threads/t1/runs").await.expect(200);
    assert!(runs["items"].as_array().unwrap().iter().all(|run| run["status"] == "cancelled"), "{runs:#}");
    app.ask("POST", "/threads/t1/cancel").send().await.expect(200);
    app.ask("POST", "/threads/none/cancel").send().await.problem("not_found");
    app.ask("POST", "/runs/run_none/cancel").send().await.problem("not_found");
    app.post("/threads/t1/cancel", json!({ "hard": true })).await.problem("invalid");
}

/// The second cancel reads the run while it is suspended, and is decided after the first one.
#[tokio::test]
async fn a_run_that_another_request_cancels_meanwhile_is_cancelled_already() {
    let store = Moody::fresh().await;
    let app = App::of(store.clone(), |_| {}).await;
    app.suspend("t1", "send").await;
    let runs = app.get("/threads/t1/runs").await.expect(200);
    let run = runs["items"][0]["runId"].as_str().unwrap();
    store.set("find_row", Mood::HangsAfter);
    let second = app.ask("POST", &format!("/runs/{run}/cancel"));
    let first = async {
        soon(store.holds("find_row")).await;
        app.post("/threads/t1/cancel", json!({})).await.expect(202);
        store.set("find_row", Mood::Well);
    };
    let (said, ()) = tokio::join!(second.send(), first);
    assert_eq!(said.expect(200), json!({ "runIds": [run] }));
    app.finish("t1", "hello").await;
    let runs = app.get("/threads/t1/runs").await.expect(200);
    let completed = format!("/runs/{}/cancel", runs["items"][1]["runId"].as_str().unwrap());
    assert_eq!(app.post(&completed, json!({})).await.problem("run_finished")["runStatus"], "completed");
}

#[tokio::test]
async fn whoever_waits_for_a_cancelled_run_gets_the_run() {
    let app = App::start().await;
    let waiting = app.ask("POST", "/threads/t1/process").header("prefer", "wait=20").json(&json!({ "query": "hang" }));
    app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
    let mut socket = app.socket("/threads/t1/events").await;
    let cancel = async {
        socket.until(|frame| frame["event"] == "token").await;
        app.ask("POST", "/threads/t1/cancel").send().await.expect(202);
    };
    let (said, ()) = tokio::join!(waiting.send(), cancel);
    let run = said.expect(200);
    assert_eq!(run["status"], "cancelled");
    assert!(run["runId"].is_string());
}

#[tokio::test]
async fn a_pause_is_a_question_that_anything_but_a_no_answers() {
    let app = App::start().await;
    app.ask("POST", "/threads/none/pause").send().await.problem("not_found");
    app.finish("t1", "hello").await;
    app.ask("POST", "/threads/t1/pause").send().await.problem("nothing_to_pause");
    app.post("/threads/t1/process", json!({ "query": "stuck" })).await.expect(202);
    app.ask("POST", "/threads/t1/pause").send().await.expect(202);
    let inbox = app.get("/suspensions").await.expect(200);
    assert_eq!(inbox["items"][0]["kind"], "pause", "{inbox:#}");
    let id = &inbox["items"][0]["suspensionId"];
    let no = app.post("/threads/t1/resume", json!({ "suspensionId": id, "approved": false })).await.problem("invalid");
    assert_eq!(no["errors"][0]["pointer"], "/approved", "{no:#}");
    app.post("/threads/t1/resume", json!({ "suspensionId": id })).await.expect(202);
    assert_eq!(app.get("/suspensions").await.expect(200)["items"], json!([]));
}
