//! Runs that wait for the tenant's limit each start once, although the process is killed, or an older release ended others.

use std::time::Duration;

use pes::domain::ids::ThreadPk;
use pes::domain::run::RunStatus;
use pes::domain::thread::ThreadProfile;
use pes::engine::step::{Keep, Row, RowKind};
use pes::service::runs;
use pes::store::NewThread;
use rstest::rstest;
use serde_json::{Value, json};

use super::probe::{Probe, ask as asked, instance};
use super::story;
use crate::support::demo::SCRIPT;
use crate::support::http::{Ask, soon, until};
use crate::support::process::{Address, Place, Server};
use crate::support::store::fresh_store;
use crate::support::together;

const RUNS: usize = 12;

fn ask(address: Address, n: usize) -> Ask {
    let ask = address.ask("POST", &format!("/threads/t{n}/process")).header("idempotency-key", "once");
    ask.json(&json!({ "query": "count" }))
}

/// The maximum number of them that ran at the same time.
fn most_at_once(runs: &[Value]) -> usize {
    let at = |run: &Value, when: &str| run[when].as_i64().expect("it began and ended");
    let begun = runs.iter().map(|run| at(run, "startedAt"));
    let under_way = |now| runs.iter().filter(|run| at(run, "startedAt") <= now && now < at(run, "finishedAt")).count();
    begun.map(under_way).max().expect("there are runs")
}

/// `bound`: how many may run in all live processes together.
async fn survives(place: Place, failpoint: &str, has_other: bool, bound: usize) {
    place.configure("[limits.tenant]\nrunning_runs = 2\n");
    let mut server = Server::start(&place, Some(failpoint)).await;
    let other = if has_other { Some(Server::start(&place, None).await) } else { None };
    let address = server.address;
    let asked = tokio::spawn(together((0..RUNS).map(move |n| ask(address, n).send())));
    server.must_reach().await;
    server.kill().await;
    asked.abort();
    let server = match other {
        Some(other) => other,
        None => Server::start(&place, None).await,
    };
    let mut runs = Vec::new();
    for n in 0..RUNS {
        // Some were not accepted before the kill.
        let said = ask(server.address, n).header("prefer", "wait=30").send().await;
        assert!([200, 202].contains(&said.status), "{said:?}");
        let listed = server.address.ask("GET", &format!("/threads/t{n}/runs")).send().await.expect(200);
        let [run] = &listed["items"].as_array().expect("a list")[..] else { panic!("{listed:#}") };
        let run = format!("/runs/{}?wait=30", run["runId"].as_str().expect("a run"));
        let run = soon(server.address.ask("GET", &run).send()).await.expect(200);
        assert_eq!(run["status"], "completed", "{run:#}");
        story::each_step_once(server.address, &format!("t{n}"), 1).await;
        runs.push(run);
    }
    let most = most_at_once(&runs);
    assert!(most <= bound, "{most} were under way at once");
}

#[rstest]
#[case("commit.after@15")]
#[case("commit.before@30")]
#[case("model.replied@12")]
#[tokio::test]
async fn each_begins_once_after_a_restart(#[case] failpoint: &str) {
    survives(Place::sqlite(SCRIPT), failpoint, false, 2).await;
}

#[rstest]
// Runs of the killed process count until its registration expires.
#[case("commit.after@15", false, 4)]
#[case("model.replied@12", true, 4)]
#[tokio::test]
async fn so_does_it_on_postgresql(#[case] failpoint: &str, #[case] has_other: bool, #[case] bound: usize) {
    survives(Place::postgres(SCRIPT).await, failpoint, has_other, bound).await;
}

/// The older release knows no such limit, so it left the row that says that the run waits.
#[tokio::test]
async fn a_thread_whose_waiting_run_an_older_release_cancelled_is_in_the_way_of_no_other() {
    let (store, probe) = (fresh_store().await, Probe::new());
    let tenant = store.tenant("default", 1).await.unwrap();
    let (thread_id, core, created_by) = ("old".into(), "pes".into(), "ann".into());
    let new = NewThread { tenant, thread_id, core, created_at: 1, created_by };
    let (kind, id, body) = (RowKind::WaitsToBegin, String::new(), "null".to_owned());
    let row = Row { kind, id, ord: 1, keep: Keep::Never, body };
    store.create_thread(ThreadPk(1), new, ThreadProfile::default(), vec![row], None).await.unwrap();
    let process = instance(store.clone(), &probe, |config| config.limits.tenant.running_runs = Some(1)).await;
    let run = asked(&process, "t", "call").await;
    let at_most = Duration::from_secs(30);
    let waited = soon(runs::wait(process.service(), process.caller(), &run, at_most)).await.unwrap();
    assert_eq!(waited.run.status, RunStatus::Completed);
    until("no thread waits", async || store.tenants_to_begin().await.unwrap().is_empty()).await;
}
