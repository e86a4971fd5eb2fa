//! The cost of waiting for other agents, and the delay until a report takes effect: 1,000 delegations wait, then each gets one
//! report, all within a second. Server, agent and client share one process and the machine.
//!
//! `cargo bench --features internals --bench delegate`
#![allow(clippy::unwrap_used, reason = "it shares a server with the tests")]

use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use pes::config::RemoteAgent;
use serde_json::json;

use peer::{Dialect, Peer};
use support::app::App;

#[path = "../tests/it/support/mod.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod support;

#[path = "../tests/it/delegate/peer.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod peer;

/// The same allocator as in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const DELEGATIONS: usize = 1_000;
const WARM_UP: usize = 200;
/// The poll interval: the agent is never polled, it only reports.
const NEVER: i64 = 3_600_000;
/// The time after which idle threads have left memory.
const REST: Duration = Duration::from_secs(5);

fn main() {
    tokio::runtime::Runtime::new().expect("a runtime").block_on(measure());
}

async fn measure() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let card = peer.card();
    let app = App::with(|config| {
        (config.delegation.poll_ms, config.delegation.poll_most_ms) = (NEVER, NEVER);
        let id = "helper".to_owned();
        config.agents.push(RemoteAgent { id, card, token: None, dedupes: false, timeout_ms: None });
    })
    .await;
    let warm = begin(&app, 0..WARM_UP).await;
    report(&peer, 0..WARM_UP).await;
    finish(&app, &warm).await;
    peer.says("WORKING");
    tokio::time::sleep(REST).await;
    let idle = resident();

    let all = WARM_UP..WARM_UP + DELEGATIONS;
    let runs = begin(&app, all.clone()).await;
    tokio::time::sleep(REST).await;
    let waiting = resident();
    println!(
        "idle: {idle:.1} MB; {DELEGATIONS} delegations wait: {:+.1} MB (the agent's memory is in it)",
        waiting - idle
    );

    let told = report(&peer, all).await;
    finish(&app, &runs).await;
    let mut delays = Vec::with_capacity(DELEGATIONS);
    for (task, at) in &told {
        let task = app.get(&format!("/tasks/{task}")).await.expect(200);
        assert_eq!(task["status"], "completed", "{task:#}");
        delays.push(task["finishedAt"].as_i64().expect("it is over") - at);
    }
    delays.sort_unstable();
    let of = |share: usize| delays[(delays.len() - 1) * share / 100];
    println!(
        "{DELEGATIONS} reports within a second, from report to resumed item: p50 {} ms, p99 {} ms, most {} ms; none lost",
        of(50),
        of(99),
        of(100)
    );
}

/// Starts that many delegations; returns when all of them wait.
async fn begin(app: &App, threads: std::ops::Range<usize>) -> Vec<String> {
    let ask = async |nth| {
        let asked = app.post(&format!("/threads/t{nth}/process"), json!({ "query": "delegate" })).await;
        asked.expect(202)["runId"].as_str().expect("an id").to_owned()
    };
    let runs: Vec<String> = stream::iter(threads).map(ask).buffered(16).collect().await;
    for run in &runs {
        while app.get(&format!("/runs/{run}")).await.expect(200)["status"] != "waiting" {}
    }
    runs
}

/// Reports these tasks as done, within a second; returns our tasks with the times of the reports.
async fn report(peer: &Peer, tasks: std::ops::Range<usize>) -> Vec<(String, i64)> {
    peer.says("COMPLETED");
    let mut tick = tokio::time::interval(Duration::from_secs(1) / u32::try_from(tasks.len()).expect("few"));
    let mut reports = Vec::with_capacity(tasks.len());
    for nth in tasks {
        tick.tick().await;
        let peer = peer.clone();
        reports.push(tokio::spawn(async move {
            let (_, path, _) = peer.push(nth);
            let at = now();
            assert_eq!(peer.reports(nth).await.status, 202);
            (path.rsplit('/').next().expect("it ends with the task").to_owned(), at)
        }));
    }
    join_all(reports).await.into_iter().map(|told| told.expect("it is taken")).collect()
}

async fn finish(app: &App, runs: &[String]) {
    for run in runs {
        assert_eq!(app.get(&format!("/runs/{run}?wait=30")).await.expect(200)["status"], "completed");
    }
}

#[expect(clippy::disallowed_methods, reason = "beside the times that the server writes")]
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_millis()).expect("before the year 292 million")
}

/// The resident memory of this process, in MB.
fn resident() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("this is Linux");
    let pages: f64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096.0 / 1e6
}
