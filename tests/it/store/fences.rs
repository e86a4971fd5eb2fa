//! A commit whose fence does not match writes nothing.

use pes::domain::observation::ObservationType;
use pes::domain::thread::{ThreadProfile, ThreadStatus};
use pes::engine::step::{Keep, RowKind};
use pes::store::{Commit, Committed, LeaseChange};
use uuid::Uuid;

use super::bed::{Bed, record, row};
use crate::support::together;

super::on_every_store!(
    a_stale_fence_writes_nothing_at_all,
    an_unknown_thread_is_stale,
    of_a_hundred_with_one_fence_one_wins,
    a_stale_one_fails_alone,
);

/// A commit that writes to every table.
async fn everywhere(bed: &Bed, pk: pes::domain::ids::ThreadPk) -> Commit {
    Commit {
        head: Some("new".into()),
        profile: Some(Box::new(ThreadProfile { title: Some("new".into()), ..ThreadProfile::default() })),
        status: ThreadStatus::Running,
        wake_at: Some(1),
        floor: 9,
        rows: vec![row(RowKind::Item, "a", 9, Keep::Never), row(RowKind::Run, "run_9", 9, Keep::Always)],
        records: vec![record("o", ObservationType::RunStarted, "run_9")],
        idempotency: Some(bed.key("k")),
        audit: vec![bed.audit_line(pk, "ann")],
        ..bed.next(pk).await
    }
}

async fn a_stale_fence_writes_nothing_at_all(bed: Bed) {
    let replica = Uuid::new_v4();
    bed.register(replica, 60_000).await;
    let pk = bed.thread("t1").await;
    let claim = LeaseChange::Claim { lease: Uuid::new_v4(), replica };
    let rows = vec![row(RowKind::Item, "a", 1, Keep::Always)];
    let records = vec![record("o", ObservationType::Intent, "r")];
    bed.done(Commit { lease: claim.clone(), rows, records, ..bed.next(pk).await }).await;
    let before = bed.everything(pk).await;

    let good = everywhere(&bed, pk).await;
    let mut stale = vec![good.clone(); 6];
    stale[0].fence.version -= 1;
    stale[1].fence.version += 1;
    stale[2].fence.epoch -= 1;
    stale[3].fence.lease = None;
    stale[4].fence.lease = Some(Uuid::new_v4());
    stale[5].last_seq += 1;
    for (nth, mut commit) in stale.into_iter().enumerate() {
        commit.token = Uuid::new_v4();
        assert_eq!(bed.store.commit(commit).await.unwrap(), Committed::Stale, "{nth}");
        assert_eq!(bed.everything(pk).await, before, "{nth}");
        assert_eq!(bed.store.idempotency(bed.tenant, "POST /threads", "k").await.unwrap(), None);
    }
    bed.done(good).await;
    assert_ne!(bed.everything(pk).await, before);
}

async fn an_unknown_thread_is_stale(bed: Bed) {
    let commit = Commit { create: None, ..bed.creating("t1") };
    assert_eq!(bed.store.commit(commit).await.unwrap(), Committed::Stale);
}

async fn of_a_hundred_with_one_fence_one_wins(bed: Bed) {
    let pk = bed.thread("t1").await;
    let fence = bed.next(pk).await;
    let answers = together((0..100).map(|n| {
        let (bed, fence) = (bed.clone(), fence.clone());
        async move {
            let records = vec![record(&format!("obs_{n}"), ObservationType::AgentResumed, "r")];
            let rows = vec![row(RowKind::Suspension, "sus_1", n, Keep::Never)];
            bed.store.commit(Commit { token: Uuid::new_v4(), records, rows, ..fence }).await.unwrap()
        }
    }))
    .await;
    let winners: Vec<_> = (0..100).filter(|n| answers[*n] == Committed::Done).collect();
    assert_eq!(winners.len(), 1);
    assert_eq!(answers.iter().filter(|answer| **answer == Committed::Stale).count(), 99);
    let observations = bed.observations(pk).await;
    assert_eq!(observations.len(), 1);
    assert_eq!(observations[0].id.as_str(), format!("obs_{}", winners[0]));
    let stored = bed.store.row(pk, RowKind::Suspension, "sus_1").await.unwrap().unwrap();
    assert_eq!(stored.ord, winners[0] as i64);
}

async fn a_stale_one_fails_alone(bed: Bed) {
    let mut commits = Vec::new();
    for n in 0..20 {
        let pk = bed.thread(&format!("t{n}")).await;
        let mut commit = everywhere(&bed, pk).await;
        commit.idempotency = None;
        commit.fence.version += n % 2;
        commits.push(commit);
    }
    let answers = together(commits.into_iter().map(|commit| {
        let bed = bed.clone();
        async move { bed.store.commit(commit).await.unwrap() }
    }))
    .await;
    for (n, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer, if n % 2 == 0 { Committed::Done } else { Committed::Stale });
    }
}
