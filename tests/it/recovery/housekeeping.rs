//! Data with a limited lifetime is deleted batch by batch, while commits continue.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use pes::config::Synchronous;
use pes::domain::ids::ThreadPk;
use pes::domain::run::RunStatus;
use pes::domain::thread::ThreadProfile;
use pes::store::sqlite::Sqlite;
use pes::store::{Commit, Committed, IdempotencyRow, NewThread, Store};

use super::probe::{Probe, ask, instance};
use crate::support::http::soon;
use crate::support::store::{Mood, Moody};
use pes::service::runs;

/// Stored answers whose keys have expired.
async fn with_old_answers(store: &dyn Store, count: i64) {
    let tenant = store.tenant("default", 1).await.unwrap();
    let commits = (1..=count).map(|pk| {
        let new = NewThread {
            tenant,
            thread_id: format!("old{pk}").into(),
            core: "pes".into(),
            created_at: 1,
            created_by: "ann".into(),
        };
        let kept = IdempotencyRow {
            tenant,
            scope: "POST /threads".into(),
            key: format!("k{pk}"),
            fingerprint: "f".into(),
            status: 201,
            body: "{}".into(),
            location: None,
            created_at: 1,
        };
        store.commit(Commit::creating(ThreadPk(pk), new, ThreadProfile::default(), Some(kept)))
    });
    assert!(join_all(commits).await.into_iter().all(|done| done.unwrap() == Committed::Done));
}

#[tokio::test]
async fn a_run_is_carried_out_between_two_batches() {
    let folder = tempfile::tempdir().unwrap();
    let inner = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap();
    with_old_answers(&inner, 1_001).await;
    let store = Moody::over(Arc::new(inner));
    store.set("forget_idempotency", Mood::HangsNext);
    let instance = instance(store.clone(), &Probe::new(), |_| {}).await;
    soon(store.holds("forget_idempotency")).await;
    let run = ask(&instance, "t", "call").await;
    let (service, caller) = (instance.service(), instance.caller());
    let waited = runs::wait(service, caller, &run, Duration::from_secs(60)).await.unwrap();
    assert_eq!(waited.run.status, RunStatus::Completed);
    assert_eq!(soon(store.forgets(1)).await, [500], "the rest waits for its turn");
    store.set("forget_idempotency", Mood::Well);
    assert_eq!(soon(store.forgets(3)).await, [500, 500, 1]);
}
