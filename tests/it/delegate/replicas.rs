//! Two processes on one PostgreSQL: either may receive a report, and when one dies the other continues.

use futures_util::future::join_all;
use serde_json::json;

use super::peer::{Dialect, Peer};
use super::stage::CALLER;
use super::{delegated, ended, knows, results};
use crate::support::app::App;
use crate::support::http::{Ask, Said};
use crate::support::postgres::Database;
use crate::support::process::{Place, Server};
use crate::support::store::store_on;

/// Far longer than any step may take: no test relies on this time-out.
const LONG: i64 = 3_600_000;

async fn replica(database: &Database, peer: &Peer) -> App {
    let store = store_on(database).await;
    App::of(store, |config| {
        knows(config, peer.card(), LONG);
        config.runtime.lease_ms = LONG;
        config.auth.sealing_key = Some("the same everywhere".to_owned().into());
    })
    .await
}

/// The peer's report, sent to this address.
async fn reported(peer: &Peer, to: std::net::SocketAddr) -> Said {
    let (_, path, token) = peer.push(0);
    let ask = Ask::new(to, "POST", &path).header("x-a2a-notification-token", &token);
    ask.json(&json!({ "statusUpdate": { "taskId": "their-1" } })).send().await
}

#[tokio::test]
async fn a_report_is_taken_anywhere_and_carried_out_by_the_owner_at_once() {
    let (database, peer) = (Database::fresh().await, Peer::start(Dialect::JsonRpc1).await);
    let (owner, other) = (replica(&database, &peer).await, replica(&database, &peer).await);
    let (run, task) = delegated(&owner, "t").await;
    peer.says("COMPLETED");
    let said = join_all((0..20).map(|nth| reported(&peer, [&other, &owner][nth % 2].address))).await;
    assert!(said.iter().all(|said| said.status == 202), "{said:?}");
    for app in [&owner, &other] {
        assert_eq!(ended(app, &run).await["status"], "completed");
        assert_eq!(app.get(&format!("/tasks/{task}")).await.expect(200)["status"], "completed");
    }
    assert_eq!(results(&other, "t").await.len(), 1);
}

#[tokio::test]
async fn a_cancel_given_elsewhere_reaches_the_agent() {
    let (database, peer) = (Database::fresh().await, Peer::start(Dialect::JsonRpc1).await);
    let (owner, other) = (replica(&database, &peer).await, replica(&database, &peer).await);
    let (run, _) = delegated(&owner, "t").await;
    other.ask("POST", &format!("/runs/{run}/cancel")).send().await.expect(202);
    peer.until(|told| told.cancelled == ["their-1"]).await;
    peer.says("WORKING");
    delegated(&owner, "u").await;
    assert_eq!(other.ask("DELETE", "/threads/u").send().await.status, 204);
    peer.until(|told| told.cancelled == ["their-1", "their-2"]).await;
}

/// The owner is killed while it waits, and in the middle of an action.
#[rstest::rstest]
#[case(None)]
#[case(Some("peer.returned@2"))]
#[tokio::test]
async fn the_other_goes_on_when_the_owner_is_killed(#[case] failpoint: Option<&str>) {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let place = Place::postgres(CALLER).await;
    place.configure(&format!(
        "auth = {{ sealing_key = \"the same everywhere\" }}\ndelegation = {{ poll_ms = {LONG} }}\n\
         [[agents]]\nid = \"helper\"\ncard = \"{}\"\n",
        peer.card()
    ));
    let mut owner = Server::start(&place, failpoint).await;
    let asked = owner.address.ask("POST", "/threads/t/process").json(&json!({ "query": "delegate" })).send().await;
    let run = asked.expect(202)["runId"].as_str().unwrap().to_owned();
    peer.until(|told| !told.sent.is_empty()).await;
    let other = Server::start(&place, None).await;
    peer.says("COMPLETED");
    if failpoint.is_some() {
        assert_eq!(reported(&peer, owner.address.socket_addr()).await.status, 202);
        owner.must_reach().await;
    }
    owner.kill().await;
    assert_eq!(reported(&peer, other.address.socket_addr()).await.status, 202);
    let ended = other.address.ask("GET", &format!("/runs/{run}?wait=30")).send().await.expect(200);
    assert_eq!(ended["status"], "completed", "{ended:#}");
    let log = other.address.ask("GET", "/threads/t/events?types=TOOL_EXECUTION").send().await.expect(200);
    assert_eq!(log["items"].as_array().map(Vec::len), Some(1), "{log:#}");
    assert_eq!(peer.told().sent.len(), 1);
    other.kill().await;
}
