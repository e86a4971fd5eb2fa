//! An idempotency key is taken by the commit that carries it, and by no other.

use pes::domain::observation::ObservationType;
use pes::store::{Commit, Committed, IdempotencyRow};

use super::bed::{Bed, record};
use crate::support::together;

super::on_every_store!(
    a_taken_key_refuses_the_whole_commit,
    of_many_with_one_key_one_wins,
    a_key_is_told_before_an_id,
    a_refused_commit_leaves_its_key_free,
    tenants_and_scopes_share_no_keys,
    old_answers_are_forgotten,
    what_is_old_is_forgotten_a_few_at_a_time,
);

async fn a_taken_key_refuses_the_whole_commit(bed: Bed) {
    let (first, second) = (bed.thread("t1").await, bed.thread("t2").await);
    bed.done(Commit { idempotency: Some(bed.key("k")), ..bed.next(first).await }).await;
    let before = bed.everything(second).await;
    let repeat = Commit {
        records: vec![record("o", ObservationType::RunStarted, "r")],
        idempotency: Some(IdempotencyRow { body: "{}".into(), ..bed.key("k") }),
        ..bed.next(second).await
    };
    assert_eq!(bed.store.commit(repeat).await.unwrap(), Committed::Duplicate);
    assert_eq!(bed.everything(second).await, before);
    let stored = bed.store.idempotency(bed.tenant, "POST /threads", "k").await.unwrap();
    assert_eq!(stored, Some(bed.key("k")));
}

async fn of_many_with_one_key_one_wins(bed: Bed) {
    let answers = together((0..30).map(|n| {
        let bed = bed.clone();
        async move {
            let commit = Commit { idempotency: Some(bed.key("k")), ..bed.creating(&format!("t{n}")) };
            let (pk, answer) = (commit.pk, bed.store.commit(commit).await.unwrap());
            (answer, bed.store.thread_by_pk(pk).await.unwrap().is_some())
        }
    }))
    .await;
    assert_eq!(answers.iter().filter(|answer| **answer == (Committed::Done, true)).count(), 1);
    assert_eq!(answers.iter().filter(|answer| **answer == (Committed::Duplicate, false)).count(), 29);
}

async fn a_key_is_told_before_an_id(bed: Bed) {
    let twice = || Commit { idempotency: Some(bed.key("k")), ..bed.creating("t1") };
    bed.done(twice()).await;
    assert_eq!(bed.store.commit(twice()).await.unwrap(), Committed::Duplicate);
}

async fn a_refused_commit_leaves_its_key_free(bed: Bed) {
    let pk = bed.thread("t1").await;
    let mut stale = Commit { idempotency: Some(bed.key("k")), ..bed.next(pk).await };
    stale.fence.version -= 1;
    assert_eq!(bed.store.commit(stale).await.unwrap(), Committed::Stale);
    let exists = Commit { idempotency: Some(bed.key("k")), ..bed.creating("t1") };
    assert_eq!(bed.store.commit(exists).await.unwrap(), Committed::Exists);
    bed.done(Commit { idempotency: Some(bed.key("k")), ..bed.next(pk).await }).await;
}

async fn tenants_and_scopes_share_no_keys(bed: Bed) {
    let other = bed.other_tenant().await;
    let theirs = IdempotencyRow { body: r#"{"runId":"theirs"}"#.into(), ..other.key("k") };
    let elsewhere = IdempotencyRow { scope: "POST /threads/t2/process".into(), ..bed.key("k") };
    bed.done(Commit { idempotency: Some(bed.key("k")), ..bed.creating("t1") }).await;
    other.done(Commit { idempotency: Some(theirs.clone()), ..other.creating("t1") }).await;
    bed.done(Commit { idempotency: Some(elsewhere.clone()), ..bed.creating("t2") }).await;
    for row in [bed.key("k"), theirs, elsewhere.clone()] {
        let stored = bed.store.idempotency(row.tenant, &row.scope, "k").await.unwrap();
        assert_eq!(stored, Some(row));
    }
    assert_eq!(bed.store.idempotency(other.tenant, &elsewhere.scope, "k").await.unwrap(), None);
}

async fn old_answers_are_forgotten(bed: Bed) {
    for (n, created_at) in [10, 20, 30].into_iter().enumerate() {
        let key = IdempotencyRow { created_at, ..bed.key(&format!("k{n}")) };
        bed.done(Commit { idempotency: Some(key), ..bed.creating(&format!("t{n}")) }).await;
    }
    assert_eq!(bed.store.forget_idempotency(20, 9).await.unwrap(), 1);
    assert_eq!(bed.store.idempotency(bed.tenant, "POST /threads", "k0").await.unwrap(), None);
    assert!(bed.store.idempotency(bed.tenant, "POST /threads", "k1").await.unwrap().is_some());
    bed.done(Commit { idempotency: Some(bed.key("k0")), ..bed.creating("t9") }).await;
}

async fn what_is_old_is_forgotten_a_few_at_a_time(bed: Bed) {
    let keyed = |n: i64| {
        let kept = IdempotencyRow { created_at: n, ..bed.key(&format!("k{n}")) };
        Commit { idempotency: Some(kept), ..bed.creating(&format!("t{n}")) }
    };
    for n in 1..=7 {
        bed.done(keyed(n)).await;
    }
    let mut forgotten = Vec::new();
    while forgotten.last() != Some(&0) {
        forgotten.push(bed.store.forget_idempotency(6, 2).await.unwrap());
    }
    assert_eq!(forgotten, [2, 2, 1, 0]);
    let key = |n: i64| format!("k{n}");
    assert!(bed.store.idempotency(bed.tenant, "POST /threads", &key(5)).await.unwrap().is_none());
    assert!(bed.store.idempotency(bed.tenant, "POST /threads", &key(6)).await.unwrap().is_some());
}
