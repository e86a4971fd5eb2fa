//! Both versions of the protocol, over both bindings. None of these agents calls back, so all of them are polled.

use rstest::rstest;
use serde_json::json;

use super::peer::{Dialect, Peer};
use super::{app, delegated, ended, results};

#[rstest]
#[tokio::test]
async fn every_dialect_is_spoken(
    #[values(Dialect::JsonRpc1, Dialect::JsonRpc03, Dialect::Rest1, Dialect::Rest03)] dialect: Dialect,
) {
    let peer = Peer::start(dialect).await;
    let app = app(&peer, 20).await;
    let (run, _) = delegated(&app, "t").await;
    peer.until(|told| told.asked > 1).await;
    peer.says("COMPLETED");
    assert_eq!(ended(&app, &run).await["status"], "completed");
    assert_eq!(results(&app, "t").await[0]["output"]["text"], "done by helper");
    let sent = peer.told().sent;
    assert_eq!(sent.len(), 1);
    let configuration = &sent[0]["configuration"];
    let returns_at_once = configuration["returnImmediately"] == true || configuration["blocking"] == json!(false);
    assert!(returns_at_once, "{configuration}");
    peer.says("WORKING");
    let (run, _) = delegated(&app, "u").await;
    app.ask("POST", &format!("/runs/{run}/cancel")).send().await.expect(202);
    peer.until(|told| told.cancelled == ["their-2"]).await;
}

/// Each kind of request: the message, the list that finds it again, the stream, the poll, the cancel.
#[rstest]
#[tokio::test]
async fn an_agents_tenant_is_named_in_every_request(#[values(Dialect::JsonRpc1, Dialect::Rest1)] dialect: Dialect) {
    let peer = Peer::start(dialect).await;
    peer.becomes(|told| (told.tenant, told.loses, told.can_stream) = (Some("team-7"), 1, true));
    let app = app(&peer, 20).await;
    let (run, _) = delegated(&app, "t").await;
    peer.until(|told| told.streams.0 > 0 && told.asked > 1).await;
    assert_eq!((peer.told().sent.len(), peer.told().listed), (1, 1));
    peer.says("COMPLETED");
    assert_eq!(ended(&app, &run).await["status"], "completed");
    assert_eq!(results(&app, "t").await[0]["status"], "success");
    peer.says("WORKING");
    let (run, _) = delegated(&app, "u").await;
    app.ask("POST", &format!("/runs/{run}/cancel")).send().await.expect(202);
    peer.until(|told| told.cancelled == ["their-2"]).await;
}
