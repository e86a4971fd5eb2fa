//! Which agents and cards are accepted.

use std::time::Duration;

use serde_json::json;

use super::peer::{Dialect, Peer};
use super::{app, delegated, ended, knows, results};
use crate::support::app::App;
use crate::support::http::pass;

const NEVER: i64 = 3_600_000;

#[tokio::test]
async fn a_card_that_is_kept_is_asked_for_again_only_if_it_changed() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let app = app(&peer, 20).await;
    peer.until(|told| !told.cards.is_empty()).await;
    app.offers("delegate_to_agent").await;
    let (run, _) = delegated(&app, "t").await;
    assert_eq!(peer.told().cards, [None], "it is fresh");
    pass(Duration::from_secs(301)).await;
    peer.until(|told| told.cards.len() > 1).await;
    assert!(peer.told().cards[1].as_deref().is_some_and(|tag| tag.starts_with('"')), "{:?}", peer.told().cards);
    // A 304 is no card, but the cached one is still used.
    peer.says("COMPLETED");
    assert_eq!(ended(&app, &run).await["status"], "completed");
    app.finish("u", "delegate").await;
    assert_eq!(results(&app, "u").await[0]["status"], "success");
}

#[tokio::test]
async fn an_agent_that_takes_a_message_once_is_sent_it_again() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    peer.becomes(|told| told.loses = 1);
    let app = App::with(|config| {
        knows(config, peer.card(), 20);
        config.agents[0].dedupes = true;
    })
    .await;
    let (run, _) = delegated(&app, "t").await;
    let told = peer.told();
    assert_eq!((told.sent.len(), told.begun.len()), (2, 1));
    assert_eq!(told.sent[0]["message"], told.sent[1]["message"]);
    peer.says("COMPLETED");
    assert_eq!(ended(&app, &run).await["status"], "completed");
    assert_eq!(app.get("/suspensions").await.expect(200)["items"], json!([]), "nobody was asked");
}

#[tokio::test]
async fn agents_report_to_the_public_address() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let app = App::with(|config| {
        knows(config, peer.card(), NEVER);
        config.server.public_url = Some("https://agents.example/pes".into());
    })
    .await;
    let (_, task) = delegated(&app, "t").await;
    let push = peer.told().sent[0]["configuration"]["taskPushNotificationConfig"].clone();
    assert_eq!(push["url"], format!("https://agents.example/pes/a2a/callbacks/{task}"));
}

#[tokio::test]
async fn an_agent_elsewhere_is_not_told_of_an_address_that_it_cannot_reach() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    // This machine, by a name that is not its own.
    let card = peer.card().replace("127.0.0.1", "0.0.0.0");
    let app = App::with(|config| knows(config, card, 20)).await;
    let (run, _) = delegated(&app, "t").await;
    assert_eq!(peer.told().sent[0]["configuration"].get("taskPushNotificationConfig"), None);
    peer.says("COMPLETED");
    assert_eq!(ended(&app, &run).await["status"], "completed", "it is asked");
}
