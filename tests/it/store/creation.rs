//! A thread is created once, and its deletion leaves nothing but its audit.

use pes::domain::observation::ObservationType;
use pes::engine::step::{Keep, RowKind};
use pes::store::{Commit, Committed, Fence, SuspensionsWanted};

use super::bed::{Bed, page, record, row};
use crate::support::together;

super::on_every_store!(
    a_commit_may_create_its_thread,
    of_many_creators_one_wins,
    an_id_that_is_taken_leaves_nothing_behind,
    only_the_fence_of_a_new_thread_creates,
    each_tenant_has_its_own_ids,
    deleting_erases_everything_and_nothing_else,
    a_deleted_id_is_free_again,
);

async fn a_commit_may_create_its_thread(bed: Bed) {
    let records = vec![record("obs_1", ObservationType::RunStarted, "run_1")];
    let rows = vec![row(RowKind::Run, "run_1", 1, Keep::Always)];
    let commit = Commit { head: Some("h".into()), rows: rows.clone(), records, ..bed.creating("t1") };
    let pk = commit.pk;
    bed.done(commit).await;
    let (thread, loaded) = bed.store.load(pk).await.unwrap().unwrap();
    assert_eq!((thread.fence.version, thread.last_seq, thread.head.as_str()), (1, 1, "h"));
    assert_eq!(loaded, rows);
    assert_eq!(bed.observations(pk).await[0].seq, 1);
}

async fn of_many_creators_one_wins(bed: Bed) {
    let answers = together((0..30).map(|_| {
        let bed = bed.clone();
        async move { bed.store.commit(bed.creating("t1")).await.unwrap() }
    }))
    .await;
    assert_eq!(answers.iter().filter(|answer| **answer == Committed::Done).count(), 1);
    assert_eq!(answers.iter().filter(|answer| **answer == Committed::Exists).count(), 29);
}

async fn an_id_that_is_taken_leaves_nothing_behind(bed: Bed) {
    let pk = bed.thread("t1").await;
    let before = bed.everything(pk).await;
    let again = Commit {
        head: Some("other".into()),
        rows: vec![row(RowKind::Run, "run_2", 1, Keep::Always)],
        records: vec![record("o", ObservationType::RunStarted, "run_2")],
        idempotency: Some(bed.key("k")),
        ..bed.creating("t1")
    };
    let loser = again.pk;
    assert_eq!(bed.store.commit(again).await.unwrap(), Committed::Exists);
    assert_eq!(bed.everything(pk).await, before);
    assert_eq!(bed.store.thread_by_pk(loser).await.unwrap(), None);
    assert_eq!(bed.observations(loser).await, []);
    assert_eq!(bed.store.idempotency(bed.tenant, "POST /threads", "k").await.unwrap(), None);
    assert_eq!(bed.store.find_row(bed.tenant, RowKind::Run, "run_2").await.unwrap(), None);
}

async fn only_the_fence_of_a_new_thread_creates(bed: Bed) {
    let mut commit = bed.creating("t1");
    commit.fence = Fence { version: 1, ..Fence::NEW };
    assert_eq!(bed.store.commit(commit).await.unwrap(), Committed::Stale);
    assert_eq!(bed.store.thread(bed.tenant, &"t1".into()).await.unwrap(), None);
}

async fn each_tenant_has_its_own_ids(bed: Bed) {
    let other = bed.other_tenant().await;
    let (ours, theirs) = (bed.thread("t1").await, other.thread("t1").await);
    assert_ne!(ours, theirs);
    assert_eq!(bed.store.thread(bed.tenant, &"t1".into()).await.unwrap().unwrap().pk, ours);
    assert_eq!(bed.store.thread(other.tenant, &"t1".into()).await.unwrap().unwrap().pk, theirs);
}

async fn deleting_erases_everything_and_nothing_else(bed: Bed) {
    let (gone, stays) = (bed.thread("gone").await, bed.thread("stays").await);
    for (pk, key) in [(gone, "k1"), (stays, "k2")] {
        let commit = Commit {
            rows: vec![
                row(RowKind::Run, &format!("run_{key}"), 1, Keep::Always),
                row(RowKind::Suspension, &format!("sus_{key}"), 1, Keep::Always),
                row(RowKind::WaitsToBegin, "", 5, Keep::Never),
            ],
            records: vec![record("o", ObservationType::RunStarted, "r")],
            idempotency: Some(bed.key(key)),
            audit: vec![bed.audit_line(pk, "ann")],
            ..bed.next(pk).await
        };
        bed.done(commit).await;
        bed.store.count_crash(pk).await.unwrap();
    }
    let untouched = bed.everything(stays).await;
    let empty = {
        let never = bed.creating("never");
        bed.everything(never.pk).await
    };
    assert!(bed.erase(gone).await);
    let lines = bed.audit(gone).await;
    assert_eq!(lines.iter().map(|line| line.actor.as_str()).collect::<Vec<_>>(), ["ann", "eve"], "who did what stays");
    let of_tenant = bed.store.audit_of_tenant(bed.tenant, &page(10)).await.unwrap().items;
    assert_eq!(of_tenant, lines[1..], "that it is gone, its tenant is told too");
    assert_eq!(bed.everything(gone).await, empty.replace("[]\n", &format!("{lines:?}\n")));
    assert_eq!(bed.store.thread(bed.tenant, &"gone".into()).await.unwrap(), None);
    assert_eq!(bed.store.find_row(bed.tenant, RowKind::Run, "run_k1").await.unwrap(), None);
    assert_eq!(bed.store.idempotency(bed.tenant, "POST /threads", "k1").await.unwrap(), None);
    assert_eq!(bed.suspensions(SuspensionsWanted::Open, page(10)).await.unwrap().items.len(), 1);
    assert_eq!(bed.everything(stays).await, untouched);
    assert!(!bed.erase(gone).await, "there is nothing any more");
    assert_eq!(bed.audit(gone).await, lines);
}

async fn a_deleted_id_is_free_again(bed: Bed) {
    let old = bed.thread("t1").await;
    let late = bed.next(old).await;
    bed.erase(old).await;
    let new = bed.thread("t1").await;
    assert_ne!(old, new);
    assert_eq!(bed.store.commit(late).await.unwrap(), Committed::Stale);
    assert_eq!(bed.read(new).await.fence.version, 1);
}
