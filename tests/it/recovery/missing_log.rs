//! The log of a SQLite database is removed while the server writes to it.

use futures_util::future::join_all;
use serde_json::json;

use super::story;
use crate::support::demo;
use crate::support::http::until;
use crate::support::process::{Accepted, Place, Server};

/// What only the log had is in the database file before the first commit is refused, so kill -9 loses none of it.
#[tokio::test]
async fn whose_log_was_removed_refuses_commits_and_has_lost_none_that_it_acknowledged() {
    let place = Place::sqlite(demo::SCRIPT);
    let server = Server::start(&place, None).await;
    let address = server.address;
    let log = place.folder().join("data/pes.db-wal");
    let client = async |client: usize| {
        for n in 0..100 {
            let thread = format!("t{client}-{n}");
            let ask = address.ask("POST", &format!("/threads/{thread}/process")).header("idempotency-key", "hello");
            let said = ask.json(&json!({ "query": "hello" })).send().await;
            if said.status != 202 {
                said.problem("store_unavailable");
                return;
            }
            let run = said.json()["runId"].as_str().expect("an id").to_owned();
            place.note(Accepted { thread, query: "hello".to_owned(), run });
            if place.accepted().len() == 20 {
                std::fs::remove_file(&log).unwrap();
            }
        }
        panic!("commits go on");
    };
    join_all((0..4).map(client)).await;
    // The check of the last second is still shared.
    until("it is not ready", async || address.ask("GET", "/readyz").send().await.status == 503).await;
    let problem = address.ask("GET", "/readyz").send().await.problem("store_unavailable");
    let why = problem["failing"][0].as_str().expect("a reason");
    let told = "store: the store is not available: pes.db-wal is no longer where it was opened";
    assert!(why.starts_with(told), "{why}");
    server.kill().await;
    let server = Server::start(&place, None).await;
    story::check_accepted(server.address, &place).await;
    server.kill().await;
}
