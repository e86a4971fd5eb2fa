//! Expired data of several tenants is deleted in turns.

use pes::domain::ids::{TenantPk, ThreadId, ThreadPk};
use pes::domain::thread::ThreadProfile;
use pes::store::{Commit, Committed, KeyStore as _, NewThread, Store, ThreadReads as _};

use crate::support::clocked::Clocked;
use crate::support::store::{Mood, Moody};

/// More than one turn deletes.
const MANY: i64 = 101;

async fn leave_old(store: &dyn Store, tenant: TenantPk, pks: impl Iterator<Item = i64>) {
    for pk in pks {
        let thread_id = ThreadId::from(format!("t{pk}"));
        let new = NewThread { tenant, thread_id, core: "pes".into(), created_at: 1, created_by: "ann".into() };
        let commit = Commit::creating(ThreadPk(pk), new, ThreadProfile::default(), None);
        assert_eq!(store.commit(commit).await.unwrap(), Committed::Done);
    }
}

#[tokio::test]
async fn a_tenant_with_much_that_is_old_keeps_no_other_waiting() {
    let store = Moody::fresh().await;
    let (large, small) = (store.tenant("default", 1).await.unwrap(), store.tenant("small", 1).await.unwrap());
    leave_old(&*store, large, 1..=MANY).await;
    leave_old(&*store, small, MANY + 1..=MANY + 1).await;
    store.set("threads_at_rest", Mood::HangsNext);
    let clocked = Clocked::on(store.clone(), |_| {}).await;
    store.holds("threads_at_rest").await;
    let left = async || {
        let mut left = Vec::new();
        for pk in 1..=MANY + 1 {
            left.extend(store.thread_by_pk(ThreadPk(pk)).await.unwrap().map(|row| row.pk.0));
        }
        left
    };
    assert_eq!(left().await, [MANY, MANY + 1], "one turn of the large one is over");
    store.set("threads_at_rest", Mood::HangsNext);
    store.holds("threads_at_rest").await;
    assert_eq!(left().await, [MANY], "the small one has had its turn before the next");
    store.set("threads_at_rest", Mood::Well);
    clocked.instance.close().await;
}

#[tokio::test]
async fn a_tenant_of_which_nothing_can_be_deleted_keeps_no_other_waiting() {
    let store = Moody::fresh().await;
    let (first, second) = (store.tenant("default", 1).await.unwrap(), store.tenant("small", 1).await.unwrap());
    leave_old(&*store, first, 1..=1).await;
    leave_old(&*store, second, 2..=2).await;
    store.set("threads_at_rest", Mood::FailsOnce);
    store.set("threads_with_terms", Mood::Hangs);
    let clocked = Clocked::on(store.clone(), |_| {}).await;
    // After the turns of all tenants.
    store.holds("threads_with_terms").await;
    let is_there = async |pk| store.thread_by_pk(ThreadPk(pk)).await.unwrap().is_some();
    assert!(is_there(1).await, "that one failed");
    assert!(!is_there(2).await);
    store.set("threads_with_terms", Mood::Well);
    clocked.instance.close().await;
}
