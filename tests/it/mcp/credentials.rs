//! Credentials that are replaced, or refused, while a server is connected.

use std::path::Path;

use pes::config::Reference;
use pes::mcp::Health;
use serde_json::json;

use super::bed::Bed;
use super::endpoint::Endpoint;

/// An endpoint that takes only this token, and its catalog, which has the token in this file.
async fn endpoint_that_takes(token: &str, file: &Path) -> (Endpoint, Bed) {
    let endpoint = Endpoint::start().await;
    endpoint.take_only(token);
    let bed = Bed::new(|server| {
        server.command = None;
        server.args.clear();
        server.url = Some(endpoint.url());
        server.headers.insert("authorization".to_owned(), Reference::from(format!("file:{}", file.display())));
    })
    .await;
    (endpoint, bed)
}

/// It is still connected, and lists its tools.
#[tokio::test]
async fn a_server_that_refuses_the_credentials_of_calls_is_down_until_a_call_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "one").unwrap();
    let (endpoint, bed) = endpoint_that_takes("one", &file).await;
    bed.call("get_price", json!({})).await.unwrap();
    assert_eq!(bed.catalog.down_servers(), [("evil".to_owned(), 0)]);
    endpoint.take_only("two");
    bed.call("get_price", json!({})).await.unwrap_err();
    let view = bed.until(|view| view.health == Health::Down).await;
    let why = "the credentials in `headers` are refused: it does not say why";
    assert_eq!((view.reason.as_deref(), view.restarts), (Some(why), 0));
    assert_eq!(bed.catalog.down_servers(), [("evil".to_owned(), 1)]);
    endpoint.take_only("one");
    bed.call("get_price", json!({})).await.unwrap();
    let view = bed.until(|view| view.health == Health::Ready).await;
    assert_eq!((view.reason, view.restarts), (None, 0));
}

#[tokio::test]
async fn a_token_that_was_replaced_in_its_file_is_read_again_when_the_old_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "one").unwrap();
    let (endpoint, bed) = endpoint_that_takes("one", &file).await;
    assert_eq!(bed.call("get_price", json!({})).await.unwrap().output, "7");

    endpoint.take_only("two");
    let error = bed.call("get_price", json!({})).await.unwrap_err();
    assert_eq!((error.code.as_str(), error.retry_after_ms), ("failed", None), "the file is as before: {error:?}");
    std::fs::write(&file, "two").unwrap();
    let error = bed.call("get_price", json!({})).await.unwrap_err();
    assert_eq!((error.code.as_str(), error.retry_after_ms), ("unavailable", Some(0)), "{error:?}");
    assert_eq!(bed.call("get_price", json!({})).await.unwrap().output, "7", "with the new one");
}
