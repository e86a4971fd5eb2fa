//! The door keeps nothing in memory: after a restart, and at any replica, a run looks the same.

use serde_json::json;

use super::host::{ALL, NEW, OLD, text};
use crate::support::app::App;
use crate::support::postgres::Database;
use crate::support::store::{fresh_store, store_on};

#[tokio::test]
async fn a_run_outlives_the_process_that_was_asked() {
    let store = fresh_store().await;
    let first = App::of(store.clone(), |_| {}).await;
    let asked = OLD.data(&first, "ask", json!({ "query": "send", "idempotencyKey": "k" })).await;
    assert_eq!(asked["status"], "suspended");
    first.stopped().await;

    let second = App::of(store, |_| {}).await;
    let run = asked["runId"].clone();
    for host in ALL {
        let again = host.data(&second, "ask", json!({ "query": "send", "idempotencyKey": "k" })).await;
        assert_eq!((&again["runId"], &again["status"]), (&run, &json!("suspended")));
        assert_eq!(host.data(&second, "status", json!({ "runId": run })).await["status"], "suspended");
    }
    let answer = json!({ "suspensionId": asked["suspensions"][0]["suspensionId"], "approved": true });
    let thread = asked["threadId"].as_str().unwrap();
    second.post(&format!("/threads/{thread}/resume"), answer).await.expect(202);
    let ended = NEW.call(&second, "status", json!({ "runId": run, "wait": 30 })).await;
    assert_eq!(text(&ended), "The mail is dealt with.");
}

async fn replica(database: &Database) -> App {
    let store = store_on(database).await;
    // No test relies on an expired lease.
    App::of(store, |config| config.runtime.lease_ms = 600_000).await
}

#[tokio::test]
async fn any_replica_waits_tells_and_stops() {
    let database = Database::fresh().await;
    let (owner, other) = (replica(&database).await, replica(&database).await);
    for host in ALL {
        let run = host.data(&owner, "start", json!({ "query": "count" })).await["runId"].clone();
        let ended = host.call(&other, "status", json!({ "runId": run, "wait": 30 })).await;
        assert_eq!(text(&ended), "Two and two are four.");
        let run = host.data(&owner, "start", json!({ "query": "hang" })).await["runId"].clone();
        assert_eq!(host.data(&other, "status", json!({ "runId": run })).await["status"], "running");
        assert_eq!(host.data(&other, "cancel", json!({ "runId": run })).await["status"], "cancelled");
    }
}
