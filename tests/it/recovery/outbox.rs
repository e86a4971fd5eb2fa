//! kill -9 around a delivery: it is still sent, under the same id.

use rstest::rstest;
use serde_json::json;

use crate::support::http::soon;
use crate::support::process::{Place, Server};
use crate::support::wire::{Wire, answer};

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
