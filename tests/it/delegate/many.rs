//! Very many delegations: waiting costs nothing, and every report is accepted once.

use futures_util::stream::{self, StreamExt};
use pes::config::env::Variables;
use serde_json::json;

use super::peer::{Dialect, Peer};
use super::{app, ended, results};
use crate::support::http::soon;

const NEVER: i64 = 3_600_000;
/// How many reports arrive at once. Each reads the store, and is refused if it waits 10 s for that.
const REPORTS_AT_ONCE: usize = 32;

#[tokio::test(flavor = "multi_thread")]
async fn all_reports_at_once_are_taken_and_each_resumes_its_run_once() {
    let is_all = Variables::of_process().get("PES_TEST_ALL").is_some();
    let count = if is_all { 1_000 } else { 200 };
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let app = &app(&peer, NEVER).await;
    let ask = async |nth| {
        let asked = app.post(&format!("/threads/t{nth}/process"), json!({ "query": "delegate" })).await;
        asked.expect(202)["runId"].as_str().unwrap().to_owned()
    };
    let runs: Vec<String> = stream::iter(0..count).map(ask).buffered(16).collect().await;
    for run in &runs {
        soon(async { while app.get(&format!("/runs/{run}")).await.expect(200)["status"] != "waiting" {} }).await;
    }
    assert_eq!((peer.told().sent.len(), peer.told().asked), (count, 0));
    peer.says("COMPLETED");
    let said: Vec<_> = stream::iter(0..count).map(|nth| peer.reports(nth)).buffered(REPORTS_AT_ONCE).collect().await;
    for said in said {
        said.expect(202);
    }
    for (nth, run) in runs.iter().enumerate() {
        assert_eq!(ended(app, run).await["status"], "completed");
        let results = results(app, &format!("t{nth}")).await;
        assert_eq!((results.len(), &results[0]["status"]), (1, &json!("success")));
    }
    assert_eq!(peer.told().asked, count, "each agent was asked once");
}
