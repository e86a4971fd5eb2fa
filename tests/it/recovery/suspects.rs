//! A request to a thread with which processes crashed repeatedly does not load it past the bound on such threads.

use std::time::Duration;

use pes::domain::run::RunStatus;
use pes::service::runs;

use super::probe::{Probe, ask, instance};
use crate::support::http::{soon, until};
use crate::support::store::{Mood, Moody, fresh_store};

/// The sweeper reserves such threads, a few at a time.
#[tokio::test]
async fn a_thread_that_may_crash_the_process_is_not_claimed_for_a_request() {
    let (inner, probe) = (fresh_store().await, Probe::new());
    let store = Moody::over(inner.clone());
    let process = instance(store.clone(), &probe, |_| {}).await;
    let (service, caller) = (process.service(), process.caller());
    let completed = async |run| {
        let waited = soon(runs::wait(service, caller, &run, Duration::from_secs(30))).await.unwrap();
        assert_eq!(waited.run.status, RunStatus::Completed);
    };
    completed(ask(&process, "t", "call").await).await;
    until("the thread has left the memory", async || service.active_threads() == 0).await;
    let row = async || inner.thread(caller.tenant, &"t".into()).await.unwrap().unwrap();
    for _ in 0..2 {
        inner.count_crash(row().await.pk).await.unwrap();
    }
    store.set("reserve", Mood::Hangs);
    let next = ask(&process, "t", "call").await;
    assert_eq!(row().await.replica, None);
    store.set("reserve", Mood::Well);
    completed(next).await;
}
