//! kill -9 at every boundary of a delegation: nothing is lost, and nothing is begun twice.

use rstest::rstest;
use serde_json::{Value, json};

use super::peer::{Dialect, Peer};
use crate::recovery::process::{Place, Server};
use crate::support::http::soon;

const SCRIPT: &str = include_str!("../support/script.toml");

#[rstest]
#[tokio::test]
async fn a_delegation_survives_and_is_begun_once(
    #[values(
        "peer.before",
        "peer.send",
        "peer.sent",
        "peer.returned",
        "peer.before@2",
        "peer.returned@2",
        "callback.verified"
    )]
    failpoint: &str,
) {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let place = Place::sqlite(SCRIPT);
    place.configure(&format!(
        "delegation = {{ poll_ms = 50, poll_most_ms = 50 }}\n[[agents]]\nid = \"helper\"\ncard = \"{}\"\n",
        peer.card()
    ));
    let mut server = Server::start(&place, Some(failpoint)).await;
    let asked = server.door.ask("POST", "/threads/t/process").json(&json!({ "query": "delegate" })).send().await;
    let run = asked.expect(202)["runId"].as_str().unwrap().to_owned();
    if failpoint == "callback.verified" {
        peer.until(|told| told.asked > 0).await;
        let (_, path, token) = peer.push(0);
        let ask = server.door.ask("POST", &path).header("x-a2a-notification-token", &token);
        let report = ask.json(&json!({ "task": { "id": "their-1" } })).send();
        tokio::select! {
            _ = report => panic!("it is held before it answers"),
            () = server.reached() => {}
        }
    } else {
        soon(server.reached()).await;
    }
    server.kill().await;
    let server = Server::start(&place, None).await;
    let page = |path: &str| server.door.ask("GET", path);
    if failpoint == "peer.before" || failpoint == "peer.send" {
        // It never went out, and nobody here can know: the agent lists its tasks and has none of it.
        let doubt = soon(async {
            loop {
                let open = page("/suspensions").send().await.expect(200);
                match open["items"].get(0) {
                    Some(open) => return open.clone(),
                    None => tokio::task::yield_now().await,
                }
            }
        })
        .await;
        assert_eq!(doubt["kind"], "in_doubt", "{doubt:#}");
        assert_eq!(peer.told().begun.len(), 0);
        let again = json!({ "suspensionId": doubt["suspensionId"], "action": "retry" });
        server.door.ask("POST", "/threads/t/resume").json(&again).send().await.expect(202);
    }
    peer.until(|told| !told.begun.is_empty()).await;
    peer.says("COMPLETED");
    let ended = page(&format!("/runs/{run}?wait=30")).send().await.expect(200);
    assert_eq!(ended["status"], "completed", "{ended:#}");
    let log = page("/threads/t/events?types=TOOL_EXECUTION").send().await.expect(200);
    let results: &Vec<Value> = log["items"].as_array().unwrap();
    assert_eq!(results.len(), 1, "{results:#?}");
    assert_eq!(results[0]["content"]["output"]["text"], "done by helper");
    assert_eq!((peer.told().begun.len(), peer.told().sent.len()), (1, 1));
    server.kill().await;
}
