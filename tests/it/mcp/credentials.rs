//! Credentials that are replaced while a server is connected.

use pes::config::Reference;
use serde_json::json;

use super::bed::Bed;
use super::endpoint::Endpoint;

#[tokio::test]
async fn a_token_that_was_replaced_in_its_file_is_read_again_when_the_old_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "one").unwrap();
    let endpoint = Endpoint::start().await;
    endpoint.take_only("one");
    let bed = Bed::new(|server| {
        server.command = None;
        server.args.clear();
        server.url = Some(endpoint.url());
        server.headers.insert("authorization".to_owned(), Reference::from(format!("file:{}", file.display())));
    })
    .await;
    assert_eq!(bed.call("get_price", json!({})).await.unwrap().output, "7");

    endpoint.take_only("two");
    let error = bed.call("get_price", json!({})).await.unwrap_err();
    assert_eq!((error.code.as_str(), error.retry_after_ms), ("failed", None), "the file is as before: {error:?}");
    std::fs::write(&file, "two").unwrap();
    let error = bed.call("get_price", json!({})).await.unwrap_err();
    assert_eq!((error.code.as_str(), error.retry_after_ms), ("unavailable", Some(0)), "{error:?}");
    assert_eq!(bed.call("get_price", json!({})).await.unwrap().output, "7", "with the new one");
}
