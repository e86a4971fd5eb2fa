//! A process is killed while it creates its database.

use serde_json::json;

use crate::support::demo;
use crate::support::process::{Place, Server};

#[tokio::test]
async fn a_database_has_no_name_before_it_is_whole_and_what_is_left_of_it_is_not_used() {
    let place = Place::sqlite(demo::SCRIPT);
    let (named, new) = (place.folder().join("data/pes.db"), place.folder().join("data/pes.db.new"));
    Server::killed_before_it_answers(&place, "sqlite.created").await;
    assert!(new.exists() && !named.exists(), "it was killed too late");
    // A start that took this for its database would fail.
    std::fs::write(&new, "half a database").unwrap();
    let server = Server::start(&place, None).await;
    let ask = server.address.ask("POST", "/threads/t/process").header("prefer", "wait=30");
    ask.json(&json!({ "query": "hello" })).send().await.expect(200);
    server.kill().await;
    assert!(named.exists() && !new.exists());
}
