//! Answers that are none of the protocol: what was certainly not done ends the call, the rest is in doubt. Both say why.

use axum::Router;
use axum::http::StatusCode;
use rstest::rstest;
use serde_json::json;
use tokio::net::TcpListener;

use super::peer::{Dialect, Peer};
use super::{delegated, knowing, knows, results};
use crate::support::app::App;
use crate::support::store::fresh_store;
use crate::support::wire::{Step, Wire, answer};

/// Longer than any test.
const NEVER: i64 = 3_600_000;

/// A server whose agent answers messages like this.
async fn app(answers: Vec<Vec<Step>>) -> (App, Peer, Wire) {
    let (peer, wire) = (Peer::start(Dialect::JsonRpc1).await, Wire::serve(answers).await);
    peer.becomes(|told| told.elsewhere = Some(wire.address));
    let app = App::with(|config| {
        config.egress.allow.push("127.0.0.1".to_owned());
        knows(config, peer.card(), 20);
    })
    .await;
    (app, peer, wire)
}

#[rstest]
#[case::as_oauth_says_it("401 Unauthorized", r#"{"error": "invalid_token"}"#, "The answer is HTTP 401: invalid_token.")]
#[case::as_a_framework_says_it("403 Forbidden", r#"{"detail": "No."}"#, "The answer is HTTP 403: No.")]
#[case::as_a_gateway_says_it(
    "400 Bad Request",
    r#"{"error": {"message": "Say it better."}}"#,
    "The answer is HTTP 400: Say it better."
)]
#[case::with_a_code_of_its_own(
    "401 Unauthorized",
    r#"{"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "Unauthorized"}}"#,
    "Unauthorized"
)]
#[case::as_a_proxy_says_it("404 Not Found", "<html>", "The answer is HTTP 404.")]
#[case::with_a_number("405 Method Not Allowed", r#"{"error": {"code": 405}}"#, "The answer is HTTP 405.")]
#[tokio::test]
async fn a_message_that_http_refuses_was_not_carried_out(#[case] status: &str, #[case] body: &str, #[case] why: &str) {
    let (app, _peer, wire) = app(vec![answer(status, "content-type: application/json\r\n", body)]).await;
    app.finish("t", "delegate").await;
    let error = results(&app, "t").await[0]["error"].clone();
    assert_eq!((&error["code"], &error["message"]), (&json!("peer_refused"), &json!(why)));
    assert_eq!(wire.waiting(), 1, "it is not sent again");
}

#[rstest]
#[case::of_a_gateway("502 Bad Gateway", "", "The answer is HTTP 502")]
#[case::of_a_gateway_that_lost_it(
    "503 Service Unavailable",
    "upstream connect error or disconnect/reset before headers. reset reason: connection termination",
    "The answer is HTTP 503"
)]
#[case::of_a_gateway_that_may_have_lost_it_before(
    "503 Service Unavailable",
    "upstream connect error or disconnect/reset before headers. retried and the latest reset reason: connection timeout",
    "The answer is HTTP 503"
)]
#[case::after_a_time_out("408 Request Timeout", "", "The answer is HTTP 408")]
#[case::that_leads_elsewhere("303 See Other", "", "The answer is HTTP 303")]
#[tokio::test]
async fn whether_a_message_arrived_is_asked_with_what_was_answered_first(
    #[case] status: &str,
    #[case] said: &str,
    #[case] why: &str,
) {
    let unknown = r#"{"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "no such method"}}"#;
    let answers = [answer(status, "", said), answer("200 OK", "content-type: application/json\r\n", unknown)];
    let (app, _peer, _wire) = app(answers.to_vec()).await;
    let asked = app.suspend("t", "delegate").await;
    let doubt = "the agent cannot tell whether it has it. `delegate_to_agent` may have had its effect.";
    assert_eq!(asked["message"], format!("Whether the agent got the task is not known: {why}; {doubt}"));
    let task = app.get("/threads/t/tasks").await.expect(200)["items"][0].clone();
    assert_eq!((&task["status"], &task["reason"]), (&json!("in_doubt"), &json!(format!("{why}."))));
}

/// Envoy had no connection to the agent, or says that it has no room: the agent got nothing.
#[rstest]
#[case("reset reason: overflow")]
#[case("reset reason: connection timeout")]
#[case("reset reason: remote connection failure, transport failure reason: delayed connect error: 111")]
#[tokio::test]
async fn a_message_that_was_not_sent_on_is_sent_again(#[case] why: &str) {
    let said = format!("upstream connect error or disconnect/reset before headers. {why}");
    let answers = vec![answer("503 Service Unavailable", "", &said), answer("403 Forbidden", "", "")];
    let (app, _peer, mut wire) = app(answers).await;
    app.finish("t", "delegate").await;
    assert_eq!(results(&app, "t").await[0]["error"]["code"], "peer_refused", "that is the second answer");
    let [first, second] = [wire.request().await.body, wire.request().await.body];
    let message = &first["params"]["message"];
    assert!(message.is_object() && second["params"]["message"] == *message, "{second:#}");
}

/// An agent whose card cannot be had: asked again, the address would say the same. It says what to do.
#[tokio::test]
async fn a_task_of_an_agent_without_a_card_is_refused_at_once() {
    let routes = Router::new().fallback(async || StatusCode::NOT_FOUND);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let card = format!("http://{}/.well-known/agent-card.json", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    let app = knowing(card, NEVER).await;
    app.finish("t", "delegate").await;
    let error = results(&app, "t").await[0]["error"].clone();
    let why = "its card: HTTP 404 Not Found; agents of versions before 0.3 have it at /.well-known/agent.json";
    assert_eq!((&error["code"], &error["message"]), (&json!("peer_refused"), &json!(why)));
}

/// A server that was started again has no card in memory. The task was begun, so the agent must hear that it is cancelled.
#[tokio::test]
async fn a_task_that_the_agent_has_is_cancelled_once_its_card_is_back() {
    let (peer, store) = (Peer::start(Dialect::JsonRpc1).await, fresh_store().await);
    let app = App::of(store.clone(), |config| knows(config, peer.card(), 20)).await;
    let (run, _) = delegated(&app, "t").await;
    app.stopped().await;
    peer.becomes(|told| told.has_no_card = true);
    let app = App::of(store, |config| knows(config, peer.card(), 20)).await;
    app.ask("POST", &format!("/runs/{run}/cancel")).send().await.expect(202);
    let asked = peer.told().cards.len();
    peer.until(|told| told.cards.len() > asked + 2).await;
    peer.becomes(|told| told.has_no_card = false);
    peer.until(|told| told.cancelled == ["their-1"]).await;
}
