//! Servers that are begun with in another way than the newest one, or at another address.

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::any;
use pes::config::McpServer;
use pes::mcp::Health;
use serde_json::json;
use tokio::net::TcpListener;

use super::bed::{Bed, evil};
use super::endpoint::Endpoint;

/// How often the program in this folder was started.
fn starts(folder: &tempfile::TempDir) -> usize {
    std::fs::read_to_string(folder.path().join("starts")).unwrap().lines().count()
}

/// A program that ends when it is asked for its versions.
async fn bed_of_the_first_library(folder: &tempfile::TempDir, is_configured: bool) -> Bed {
    Bed::new(|server| {
        *server = McpServer { initialize: is_configured, ..evil(folder.path()) };
        server.args.push("first".to_owned());
    })
    .await
}

/// The protocol library waits for ten seconds of its own clock for the answer that does not come.
#[tokio::test]
async fn a_program_that_ends_when_asked_for_its_versions_is_started_again_with_initialize() {
    let folder = tempfile::tempdir().unwrap();
    let bed = bed_of_the_first_library(&folder, false).await;
    assert_eq!(bed.call("structured", json!({})).await.unwrap().output, json!({ "n": 1 }));
    let view = bed.until(|view| view.health == Health::Ready).await;
    assert_eq!((view.restarts, starts(&folder)), (0, 2));
    // What it needs is known from then on.
    assert!(bed.call("crash", json!({})).await.unwrap_err().is_lost());
    assert!(bed.call("structured", json!({})).await.is_ok());
    let view = bed.until(|view| view.health == Health::Ready).await;
    assert_eq!((view.restarts, starts(&folder)), (1, 3));
}

#[tokio::test]
async fn a_server_is_asked_for_initialize_alone_if_its_settings_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let bed = bed_of_the_first_library(&folder, true).await;
    assert_eq!(bed.call("structured", json!({})).await.unwrap().output, json!({ "n": 1 }));
    assert_eq!(starts(&folder), 1);
}

/// Frameworks redirect from `/mcp` to `/mcp/`, proxies from http to https.
#[rstest::rstest]
#[case(StatusCode::TEMPORARY_REDIRECT, "refused: HTTP 307")]
#[case(StatusCode::PERMANENT_REDIRECT, "refused: HTTP 308")]
#[case(StatusCode::MOVED_PERMANENTLY, "unexpected server response: HTTP 301")]
#[tokio::test]
async fn of_a_server_that_redirects_the_other_address_is_told(#[case] status: StatusCode, #[case] said: &str) {
    let answer = move || async move { (status, [(header::LOCATION, "/mcp/?token=secret")]).into_response() };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = Router::new().route("/mcp", any(answer));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    let bed = Bed::new(|server| {
        let url = format!("http://user:secret@{address}/mcp?token=secret");
        *server = McpServer { url: Some(url), ..McpServer::default() };
    })
    .await;
    let reason = bed.until(|view| view.health == Health::Down).await.reason.unwrap();
    let place = format!("http://{address}/mcp/");
    let expected =
        format!("{said}: it redirects to {place}, which is not followed; if it has moved, set its `url` to that");
    assert_eq!(reason, expected);
}

/// Models and tenants see the errors of calls, and some services give addresses whose path is a secret.
#[tokio::test]
async fn of_a_call_that_is_redirected_the_other_address_is_not_told() {
    let endpoint = Endpoint::start().await;
    let bed = Bed::new(|server| *server = McpServer { url: Some(endpoint.url()), ..McpServer::default() }).await;
    bed.call("get_price", json!({})).await.unwrap();
    endpoint.move_to("/secret/mcp");
    let error = bed.call("get_price", json!({})).await.unwrap_err();
    let message = "The call was refused: HTTP 307: it redirects elsewhere, which is not followed";
    assert_eq!((error.code.as_str(), error.message.as_str()), ("failed", message));
}
