//! Tasks at other agents are cancelled when their thread is erased or the agent is removed.

use serde_json::json;

use super::peer::{Dialect, Peer};
use super::stage::CALLER;
use super::{app, delegated, ended, knows, registered, results};
use crate::support::app::App;
use crate::support::process::{Place, Server};

/// Longer than any test.
const NEVER: i64 = 3_600_000;

#[tokio::test]
async fn an_agent_that_works_for_an_erased_thread_is_told_to_stop() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let app = app(&peer, NEVER).await;
    let (_, task) = delegated(&app, "t").await;
    delegated(&app, "u").await;
    assert_eq!(app.ask("DELETE", "/threads/t").send().await.status, 204);
    app.get(&format!("/tasks/{task}")).await.problem("not_found");
    peer.until(|told| !told.cancelled.is_empty()).await;
    assert_eq!(peer.told().cancelled, ["their-1"], "and nobody else");
    assert_eq!(peer.reports(0).await.status, 404, "nobody wants to hear of it any more");
}

#[tokio::test]
async fn an_agent_that_is_done_is_told_nothing_when_its_thread_is_erased() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let app = app(&peer, NEVER).await;
    let (run, _) = delegated(&app, "t").await;
    peer.says("COMPLETED");
    assert_eq!(peer.reports(0).await.status, 202);
    ended(&app, &run).await;
    assert_eq!(app.ask("DELETE", "/threads/t").send().await.status, 204);
    peer.says("WORKING");
    let (run, _) = delegated(&app, "u").await;
    app.ask("POST", &format!("/runs/{run}/cancel")).send().await.expect(202);
    peer.until(|told| told.cancelled == ["their-2"]).await;
}

#[tokio::test]
async fn an_agent_that_has_not_said_what_it_calls_the_task_is_told_to_stop() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let app = app(&peer, NEVER).await;
    peer.becomes(|told| told.silent = 1);
    app.post("/threads/t/process", json!({ "query": "delegate" })).await.expect(202);
    peer.until(|told| !told.sent.is_empty()).await;
    assert_eq!(app.ask("DELETE", "/threads/t").send().await.status, 204);
    peer.until(|told| told.cancelled == ["their-1"]).await;
}

#[tokio::test]
async fn an_agent_that_is_too_busy_to_hear_it_is_told_again() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let elsewhere = crate::support::wire::Wire::serve(vec![]).await;
    let app = App::with(|config| {
        knows(config, peer.card(), NEVER);
        config.outbox.backoff_ms = vec![1; 9];
    })
    .await;
    delegated(&app, "t").await;
    peer.becomes(|told| told.moved = Some(elsewhere.address));
    assert_eq!(app.ask("DELETE", "/threads/t").send().await.status, 204);
    peer.until(|told| told.refused > 1).await;
    peer.becomes(|told| told.moved = None);
    peer.until(|told| told.cancelled == ["their-1"]).await;
    assert_eq!(elsewhere.connections(), 0);
}

/// A key that was being rotated is valid again in a minute.
#[tokio::test]
async fn an_agent_that_takes_no_key_for_a_while_is_told_again() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let app = App::with(|config| {
        knows(config, peer.card(), NEVER);
        config.outbox.backoff_ms = vec![1; 9];
    })
    .await;
    delegated(&app, "t").await;
    peer.becomes(|told| told.locked = true);
    assert_eq!(app.ask("DELETE", "/threads/t").send().await.status, 204);
    peer.until(|told| told.refused > 1).await;
    peer.becomes(|told| told.locked = false);
    peer.until(|told| told.cancelled == ["their-1"]).await;
}

#[tokio::test]
async fn that_is_not_lost_when_the_process_is_killed_right_after_the_erasure() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let place = Place::sqlite(CALLER);
    place.configure(&format!("[[agents]]\nid = \"helper\"\ncard = \"{}\"\n", peer.card()));
    let mut server = Server::start(&place, Some("delete.committed")).await;
    server.address.ask("POST", "/threads/t/process").json(&json!({ "query": "delegate" })).send().await.expect(202);
    peer.until(|told| !told.sent.is_empty()).await;
    let erasing = server.address.ask("DELETE", "/threads/t").send();
    tokio::select! {
        _ = erasing => panic!("it is held before it answers"),
        () = server.reached() => {}
    }
    server.kill().await;
    let server = Server::start(&place, None).await;
    peer.until(|told| !told.cancelled.is_empty()).await;
    assert_eq!(peer.told().cancelled, ["their-1"]);
    server.address.ask("GET", "/threads/t").send().await.problem("not_found");
    server.kill().await;
}

#[tokio::test]
async fn the_tasks_of_a_removed_agent_end_and_say_why() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let app = registered::app(&peer.address.to_string(), NEVER).await;
    for id in ["helper", "another"] {
        app.post("/agents", json!({ "id": id, "card": peer.card() })).await.expect(201);
    }
    let (run, task) = delegated(&app, "t").await;
    assert_eq!(app.ask("DELETE", "/agents/another").send().await.status, 204);
    assert_eq!(app.get(&format!("/tasks/{task}")).await.expect(200)["status"], "working");
    assert_eq!(app.ask("DELETE", "/agents/helper").send().await.status, 204);
    assert_eq!(ended(&app, &run).await["status"], "completed", "the model is told, and goes on");
    assert_eq!(results(&app, "t").await[0]["error"]["code"], "peer_removed");
    let shown = app.get(&format!("/tasks/{task}")).await.expect(200);
    assert_eq!((&shown["status"], &shown["reason"]), (&json!("failed"), &json!("the agent `helper` was removed")));
    assert_eq!(peer.told().cancelled.len(), 0, "it is not spoken to any more");
}

#[tokio::test]
async fn a_question_of_a_removed_agent_is_withdrawn() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let app = registered::app(&peer.address.to_string(), NEVER).await;
    app.post("/agents", json!({ "id": "helper", "card": peer.card() })).await.expect(201);
    let (run, _) = delegated(&app, "t").await;
    peer.says("INPUT_REQUIRED");
    let mut socket = app.socket("/threads/t/events?after=latest").await;
    assert_eq!(peer.reports(0).await.status, 202);
    super::status(&mut socket, "input_required").await;
    assert_eq!(app.ask("DELETE", "/agents/helper").send().await.status, 204);
    super::status(&mut socket, "failed").await;
    assert_eq!(ended(&app, &run).await["status"], "completed");
    assert_eq!(app.get("/suspensions").await.expect(200)["items"], json!([]));
}
