//! kill -9 around a delivery: it is still sent, under the same id.

use std::sync::Arc;

use rstest::rstest;
use serde_json::json;
use tokio::sync::Notify;

use crate::support::http::soon;
use crate::support::metrics::found;
use crate::support::process::{Place, Server};
use crate::support::wire::{Step, Wire, answer};

const SCRIPT: &str = r#"
[[reply]]
when = { phase = "planning" }
json = { title = "T", intent = "I", plan = "P", answer = "Done.", todoList = [] }
"#;

#[rstest]
#[tokio::test]
async fn what_a_killed_process_had_to_tell_is_told_after_all(
    #[values("final.committed", "delivery.claimed", "delivery.sent")] failpoint: &str,
) {
    let mut wire = Wire::serve((0..4).map(|_| answer("204 No Content", "", "")).collect()).await;
    let place = Place::sqlite(SCRIPT);
    place.configure(&format!(
        "outbox = {{ attempt_timeout_ms = 2000 }}\n\
         [[webhooks]]\nid = \"ops\"\nurl = \"http://{}/\"\nevents = [\"run.finished\"]\n",
        wire.address
    ));
    let mut server = Server::start(&place, Some(failpoint)).await;
    server.address.ask("POST", "/threads/t/process").json(&json!({ "query": "hello" })).send().await.expect(202);
    server.must_reach().await;
    server.kill().await;
    let server = Server::start(&place, None).await;
    let delivered = soon(async {
        loop {
            let found = server.address.ask("GET", "/webhooks/ops/deliveries").send().await.expect(200);
            match found["items"][0]["status"].as_str() {
                Some("delivered") => return found["items"].as_array().unwrap().clone(),
                Some(_) | None => tokio::task::yield_now().await,
            }
        }
    })
    .await;
    assert_eq!(delivered.len(), 1, "{delivered:#?}");
    let sent_before = usize::from(failpoint == "delivery.sent");
    assert_eq!(wire.waiting(), 1 + sent_before);
    for _ in 0..=sent_before {
        assert_eq!(wire.request().await.header("webhook-id"), delivered[0]["deliveryId"].as_str());
    }
    server.kill().await;
}

/// What delays it has no thread: its run is over.
#[tokio::test]
async fn a_stop_that_waited_for_a_delivery_in_vain_does_not_call_it_a_step() {
    let mut wire = Wire::serve(vec![vec![Step::Stall(Arc::new(Notify::new()))]]).await;
    let place = Place::sqlite(SCRIPT);
    place.configure(&format!(
        "runtime = {{ drain_ms = 4000, idle_ms = 1 }}\n\
         [[webhooks]]\nid = \"ops\"\nurl = \"http://{}/\"\nevents = [\"run.finished\"]\n",
        wire.address
    ));
    let mut server = Server::start(&place, None).await;
    let ask = server.address.ask("POST", "/threads/t/process").header("prefer", "wait=30");
    ask.json(&json!({ "query": "hello" })).send().await.expect(200);
    soon(wire.request()).await;
    soon(async {
        while found(&server.address.ask("GET", "/metrics").send().await.text(), "pes_active_threads") != Some(0.0) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    server.stop();
    server.ended().await;
    let log = std::fs::read_to_string(place.folder().join("log")).unwrap();
    assert!(log.contains("background work that did not end in time") && !log.contains("steps that did not"), "{log}");
}
