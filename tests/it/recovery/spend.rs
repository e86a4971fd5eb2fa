//! Spending under a cap survives a kill -9: nothing is lost or counted twice, and no reservation stays for ever.

use std::sync::Arc;
use std::time::Duration;

use pes::config::Synchronous;
use pes::domain::usage::nanos;
use pes::store::Store;
use pes::store::postgres::Postgres;
use pes::store::sqlite::Sqlite;
use rstest::rstest;
use serde_json::json;

use crate::front::spend::{taken, this_month};
use crate::support::demo;
use crate::support::http::{Ask, Said};
use crate::support::process::{Address, Place, Server};
use crate::support::together;

/// A call may cost 5 cents, and mostly costs 1.
const SETTINGS: &str = r#"
[prices]
"demo:*" = { input_per_million = 10.0, output_per_million = 10.0 }
[limits.spend]
tenant_month_usd = 0.4
"#;
const CAP: f64 = 0.4;

fn ask(address: Address, n: usize) -> Ask {
    let ask = address.ask("POST", &format!("/threads/t{n}/process")).header("prefer", "wait=60");
    ask.header("idempotency-key", "once").json(&json!({ "query": "count" }))
}

/// 32 concurrent runs, until each has ended or was refused.
async fn all_at_once(address: Address) -> Vec<Said> {
    let sent = (0..32).map(|n| async move {
        tokio::time::timeout(Duration::from_secs(120), ask(address, n).send()).await.expect("it ends")
    });
    together(sent).await
}

async fn survives(place: Place, failpoint: &str) {
    place.configure(SETTINGS);
    let mut server = Server::start(&place, Some(failpoint)).await;
    let asked = tokio::spawn(all_at_once(server.address));
    server.must_reach().await;
    server.kill().await;
    asked.abort();
    let server = Server::start(&place, None).await;
    let ended = all_at_once(server.address).await;
    assert!(ended.iter().all(|said| [200, 202, 429].contains(&said.status)), "{ended:?}");
    // Some were accepted before the kill, and are not sent again once the cap is reached.
    for run in server.address.ask("GET", "/runs?limit=100").send().await.expect(200)["items"].as_array().unwrap() {
        let run = format!("/runs/{}?wait=30", run["runId"].as_str().unwrap());
        server.address.ask("GET", &run).send().await.expect(200);
    }
    server.kill().await;
    let store: Arc<dyn Store> = match place.database_url() {
        Some(url) => Arc::new(Postgres::open(&url.into(), 2).await.unwrap()),
        None => Arc::new(Sqlite::open(&place.folder().join("data"), Synchronous::Normal).await.unwrap()),
    };
    let spent = this_month(&*store).await;
    assert_eq!((spent.used, spent.held), (taken(&*store).await, 0), "{failpoint}");
    assert!((nanos(CAP) / 2..=nanos(CAP)).contains(&spent.used), "{spent:?}");
}

#[rstest]
#[case("commit.before@50")]
#[case("commit.after@60")]
#[case("model.replied@20")]
#[tokio::test]
async fn runs_side_by_side_keep_to_the_cap_although_the_process_is_killed(#[case] failpoint: &str) {
    survives(Place::sqlite(demo::SCRIPT), failpoint).await;
}

#[rstest]
#[case("commit.after@60")]
#[case("model.replied@20")]
#[tokio::test]
async fn so_do_those_on_postgresql(#[case] failpoint: &str) {
    survives(Place::postgres(demo::SCRIPT).await, failpoint).await;
}
