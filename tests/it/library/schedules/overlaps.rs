//! Times that come while earlier runs are unfinished.

use std::sync::Arc;

use pes::domain::run::RunStatus;
use serde_json::json;
use tokio::sync::Notify;

use super::{Clocked, MINUTE, TODAY};
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
