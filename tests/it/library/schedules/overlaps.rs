//! Times that come while earlier runs are unfinished.

use std::sync::Arc;

use pes::domain::ids::RunId;
use pes::domain::run::{OnBusy, RunStatus};
use pes::service::once::Answered;
use pes::service::runs::{self, ProcessAsk};
use serde_json::json;
use tokio::sync::Notify;

use crate::support::clocked::{Clocked, MINUTE, TODAY};
use crate::support::http::soon;
use crate::support::store::fresh_store;
use crate::support::wire::{Step, Wire, answer};

/// The first run fails after the second one has begun, which does not end.
#[tokio::test]
async fn a_failure_behind_a_newer_unfinished_run_pauses_the_schedule() {
    let fails = Arc::new(Notify::new());
    let refusal = [vec![Step::Until(fails.clone())], answer("400 Bad Request", "", "no")].concat();
    let mut wire = Wire::serve(vec![refusal, vec![Step::Stall(Arc::new(Notify::new()))]]).await;
    let url = wire.url();
    let clocked = Clocked::with(fresh_store().await, TODAY, |config| config.models.openai.base_url = Some(url)).await;
    clocked.schedule(json!({ "overlap": "allow", "pauseOnFailure": true })).await;
    for _ in 0..2 {
        clocked.passes(MINUTE).await;
        soon(wire.request()).await;
    }
    fails.notify_one();
    let first = clocked.runs().await.remove(1);
    assert_eq!(clocked.finished(&first).await, RunStatus::Failed);
    clocked.passes(MINUTE).await;
    let shown = clocked.shown().await;
    assert_eq!((shown.spec.paused, shown.paused_because.as_deref()), (true, Some("Its last run failed.")));
    let statuses: Vec<RunStatus> = clocked.runs().await.iter().map(|run| run.status).collect();
    assert_eq!(statuses, [RunStatus::Running, RunStatus::Failed]);
}

/// A person's query.
async fn asks(clocked: &Clocked, thread: &str) -> RunId {
    let ask = ProcessAsk { query: "hello".to_owned(), on_busy: OnBusy::Enqueue, ..ProcessAsk::default() };
    match runs::process(clocked.instance.service(), clocked.caller(), &thread.into(), ask, None).await.unwrap() {
        Answered::Fresh(receipt) => receipt.run_id,
        Answered::Replayed(_) => panic!("no key was sent"),
    }
}

/// No run of the fixed thread can begin, because the tenant has all the runs that it may have.
#[tokio::test]
async fn times_that_cancel_leave_one_queued_run_on_a_fixed_thread() {
    let mut wire = Wire::serve(vec![vec![Step::Stall(Arc::new(Notify::new()))]]).await;
    let url = wire.url();
    let clocked = Clocked::with(fresh_store().await, TODAY, |config| {
        config.models.openai.base_url = Some(url);
        config.limits.tenant.running_runs = Some(1);
    })
    .await;
    asks(&clocked, "busy").await;
    soon(wire.request()).await;
    clocked.schedule(json!({ "overlap": "cancel", "thread": { "mode": "fixed", "id": "t" } })).await;
    for _ in 0..3 {
        clocked.passes(MINUTE).await;
    }
    let statuses: Vec<RunStatus> = clocked.runs().await.iter().map(|run| run.status).collect();
    assert_eq!(statuses, [RunStatus::Queued, RunStatus::Cancelled, RunStatus::Cancelled]);
}

/// The active run is cancelled for the new one, not for the person's query that waits behind it.
#[tokio::test]
async fn a_time_that_cancels_leaves_the_queries_of_others_queued() {
    let stall = || vec![Step::Stall(Arc::new(Notify::new()))];
    let mut wire = Wire::serve(vec![stall(), stall()]).await;
    let url = wire.url();
    let clocked = Clocked::with(fresh_store().await, TODAY, |config| config.models.openai.base_url = Some(url)).await;
    clocked.schedule(json!({ "overlap": "cancel", "thread": { "mode": "fixed", "id": "t" } })).await;
    clocked.passes(MINUTE).await;
    soon(wire.request()).await;
    let waits = asks(&clocked, "t").await;
    clocked.passes(MINUTE).await;
    soon(wire.request()).await;
    let statuses: Vec<RunStatus> = clocked.runs().await.iter().map(|run| run.status).collect();
    assert_eq!(statuses, [RunStatus::Running, RunStatus::Cancelled]);
    let other = runs::get(clocked.instance.service(), clocked.caller(), &waits).await.unwrap();
    assert_eq!(other.status, RunStatus::Queued);
}
