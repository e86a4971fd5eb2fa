//! Both versions of the protocol, over both bindings. None of these agents calls back, so all of them are polled.

use rstest::rstest;
use serde_json::json;

use super::peer::{Dialect, Peer};
use super::{app, delegated, ended, knows, results};
use crate::support::app::App;

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
    if dialect == Dialect::JsonRpc03 {
        assert_eq!(configuration["acceptedOutputModes"], json!([]), "required before 0.3: {configuration}");
    }
    peer.says("WORKING");
    let (run, _) = delegated(&app, "u").await;
    app.ask("POST", &format!("/runs/{run}/cancel")).send().await.expect(202);
    peer.until(|told| told.cancelled == ["their-2"]).await;
}

/// Such an agent has no codes over HTTP+JSON, only the status and a message.
#[tokio::test]
async fn errors_of_the_older_version_over_http_are_told_apart() {
    let peer = Peer::start(Dialect::Rest03).await;
    peer.becomes(|told| told.takes_no_address = true);
    let app = app(&peer, 20).await;
    let (run, _) = delegated(&app, "t").await;
    assert_eq!((peer.told().refused, peer.told().sent.len()), (1, 1), "it gets the message without an address");
    peer.becomes(|told| told.forgets = true);
    assert_eq!(ended(&app, &run).await["status"], "completed");
    assert_eq!(results(&app, "t").await[0]["error"]["code"], "peer_lost");
}

/// The response to the message is lost, and the agent has finished other tasks with large results.
#[rstest]
#[tokio::test]
async fn a_task_is_found_again_however_large_the_results_of_the_others_are(
    #[values(Dialect::JsonRpc1, Dialect::Rest1)] dialect: Dialect,
) {
    let peer = Peer::start(dialect).await;
    peer.becomes(|told| {
        (told.state, told.loses, told.result_bytes) = ("COMPLETED", 1, 25 << 10);
        told.begun.extend((0..19).map(|nth| (format!("message-{nth}"), format!("other-{nth}"))));
    });
    let app = App::with(|config| {
        knows(config, peer.card(), 20);
        config.limits.tool_output_bytes = 64 << 10;
    })
    .await;
    app.finish("t", "delegate").await;
    let result = results(&app, "t").await[0].clone();
    assert_eq!(result["output"]["text"].as_str().map(str::len), Some(25 << 10), "{}", result["status"]);
    let told = peer.told();
    assert_eq!((told.sent.len(), told.listed, told.asked), (1, 1, 1));
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
