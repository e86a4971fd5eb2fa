//! Agents that cannot call back but stream events: an event makes the server poll the task.

use rstest::rstest;
use serde_json::{Value, json};

use super::peer::{Dialect, Peer};
use super::{app, delegated, ended, knows, results};
use crate::support::app::App;
use crate::support::ws::is;

/// Longer than any test.
const NEVER: i64 = 3_600_000;

#[rstest]
#[tokio::test]
async fn what_an_agent_tells_is_known_long_before_it_would_be_asked(
    #[values(Dialect::JsonRpc1, Dialect::JsonRpc03, Dialect::Rest1, Dialect::Rest03)] dialect: Dialect,
) {
    let peer = Peer::start(dialect).await;
    peer.becomes(|told| told.can_stream = true);
    let app = app(&peer, NEVER).await;
    let (run, _) = delegated(&app, "t").await;
    peer.until(|told| told.streams == (1, 1)).await;
    assert!(peer.told().sent[0]["configuration"].to_string().find("/a2a/callbacks/").is_none(), "it cannot call back");
    peer.says("COMPLETED");
    assert_eq!(ended(&app, &run).await["status"], "completed");
    assert_eq!(results(&app, "t").await[0]["output"]["text"], "done by helper");
    assert_eq!(peer.told().asked, 1, "what it told was no more than a reason to ask");
    peer.until(|told| told.streams == (1, 0)).await;
}

#[tokio::test]
async fn a_question_is_heard_and_so_is_what_follows_its_answer() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    peer.becomes(|told| told.can_stream = true);
    let app = app(&peer, NEVER).await;
    let (run, _) = delegated(&app, "t").await;
    peer.until(|told| told.streams.1 == 1).await;
    peer.says("INPUT_REQUIRED");
    let asked = app.asked("t").await;
    let answer = json!({ "suspensionId": asked["suspensionId"], "value": "blue" });
    app.post("/threads/t/resume", answer).await.expect(202);
    peer.until(|told| told.sent.len() == 2).await;
    peer.says("COMPLETED");
    assert_eq!(ended(&app, &run).await["status"], "completed");
    assert_eq!(peer.told().streams.0, 1, "one stream heard it all");
}

/// Somebody answered the agent elsewhere.
#[tokio::test]
async fn another_question_of_the_agent_replaces_the_one_that_is_open_here() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    peer.becomes(|told| told.can_stream = true);
    let app = app(&peer, NEVER).await;
    let (run, _) = delegated(&app, "t").await;
    peer.until(|told| told.streams.1 == 1).await;
    let mut socket = app.socket("/threads/t/events?after=latest").await;
    let mut asked = async |message: &str| {
        let is_it = |frame: &Value| is(frame, "AGENT_SUSPENDED") && frame["data"]["content"]["message"] == message;
        socket.until(is_it).await;
        let open = app.get("/suspensions").await.expect(200)["items"].clone();
        assert_eq!((open.as_array().map(Vec::len), &open[0]["message"]), (Some(1), &json!(message)), "{open:#}");
        open[0]["suspensionId"].clone()
    };
    peer.says("INPUT_REQUIRED");
    let first = asked("which one?").await;
    peer.becomes(|told| told.says = "delete them all?");
    let second = asked("delete them all?").await;
    let late = app.post("/threads/t/resume", json!({ "suspensionId": first, "value": "yes" })).await;
    late.problem("already_resolved");
    app.post("/threads/t/resume", json!({ "suspensionId": second, "value": "no" })).await.expect(202);
    peer.until(|told| told.sent.len() == 2).await;
    assert_eq!(peer.told().sent[1]["message"]["parts"], json!([{ "text": "no" }]));
    peer.says("COMPLETED");
    assert_eq!(ended(&app, &run).await["status"], "completed");
}

#[tokio::test]
async fn a_stream_that_is_cut_loses_nothing() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    peer.becomes(|told| (told.can_stream, told.cuts) = (true, true));
    let app = app(&peer, 50).await;
    let (run, _) = delegated(&app, "t").await;
    peer.until(|told| told.streams.0 > 2).await;
    peer.says("COMPLETED");
    assert_eq!(ended(&app, &run).await["status"], "completed");
    assert_eq!(results(&app, "t").await.len(), 1);
}

#[tokio::test]
async fn no_more_are_listened_to_than_there_is_room_for() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    peer.becomes(|told| told.can_stream = true);
    let app = App::with(|config| {
        knows(config, peer.card(), 50);
        config.delegation.streams = 2;
    })
    .await;
    let mut runs = Vec::new();
    for thread in ["t", "u", "v"] {
        runs.push(delegated(&app, thread).await.0);
    }
    let asked = peer.told().asked;
    peer.until(|told| told.asked > asked + 3).await;
    assert_eq!(peer.told().streams, (2, 2));
    peer.says("COMPLETED");
    for run in runs {
        assert_eq!(ended(&app, &run).await["status"], "completed");
    }
}

#[tokio::test]
async fn a_server_that_stops_hangs_up() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    peer.becomes(|told| told.can_stream = true);
    let app = app(&peer, NEVER).await;
    delegated(&app, "t").await;
    peer.until(|told| told.streams.1 == 1).await;
    app.stopped().await;
    peer.until(|told| told.streams.1 == 0).await;
}
