//! Leases: who takes care of which thread, and when somebody else may.

use pes::domain::ids::ThreadPk;
use pes::domain::thread::ThreadStatus;
use pes::store::{Commit, Committed, LeaseChange};
use uuid::Uuid;

use super::bed::Bed;

super::on_every_store!(
    a_claim_takes_the_lease_and_moves_the_epoch,
    nobody_takes_what_a_living_owner_holds,
    an_expired_owner_loses_what_it_holds,
    a_released_thread_is_unowned,
    a_registration_is_renewed_until_it_expires,
    ending_a_registration_frees_its_threads,
    what_nobody_takes_care_of_is_claimable,
    the_owner_is_told_what_is_due,
    the_next_wake_is_the_earliest,
);

fn claim(replica: Uuid) -> LeaseChange {
    LeaseChange::Claim { lease: Uuid::new_v4(), replica }
}

async fn registered(bed: &Bed) -> Uuid {
    let replica = Uuid::new_v4();
    bed.store.register(replica, 60_000).await.unwrap();
    replica
}

async fn claimed_by(bed: &Bed, id: &str, replica: Uuid) -> ThreadPk {
    let pk = bed.thread(id).await;
    bed.done(Commit { lease: claim(replica), ..bed.next(pk).await }).await;
    pk
}

async fn with(bed: &Bed, pk: ThreadPk, status: ThreadStatus, wake_at: Option<i64>) {
    bed.done(Commit { status, wake_at, ..bed.next(pk).await }).await;
}

async fn a_claim_takes_the_lease_and_moves_the_epoch(bed: Bed) {
    let replica = registered(&bed).await;
    let pk = bed.thread("t1").await;
    let lease = Uuid::new_v4();
    bed.done(Commit { lease: LeaseChange::Claim { lease, replica }, ..bed.next(pk).await }).await;
    let thread = bed.read(pk).await;
    assert_eq!((thread.fence.epoch, thread.fence.lease, thread.replica), (1, Some(lease), Some(replica)));

    bed.done(bed.next(pk).await).await;
    assert_eq!(bed.read(pk).await.fence.lease, Some(lease), "kept by what follows");
    bed.done(Commit { lease: claim(replica), ..bed.next(pk).await }).await;
    assert_eq!(bed.read(pk).await.fence.epoch, 2, "its own replica may claim it again");
}

async fn nobody_takes_what_a_living_owner_holds(bed: Bed) {
    let replica = registered(&bed).await;
    let pk = claimed_by(&bed, "t1", replica).await;
    let before = bed.everything(pk).await;
    let theft = Commit { lease: claim(Uuid::new_v4()), ..bed.next(pk).await };
    assert_eq!(bed.store.commit(theft).await.unwrap(), Committed::Stale);
    assert_eq!(bed.everything(pk).await, before);
}

async fn an_expired_owner_loses_what_it_holds(bed: Bed) {
    let expired = Uuid::new_v4();
    bed.store.register(expired, -1).await.unwrap();
    let pk = claimed_by(&bed, "t1", expired).await;
    let owners_next = bed.next(pk).await;
    let taker = Uuid::new_v4();
    bed.done(Commit { lease: claim(taker), ..bed.next(pk).await }).await;
    let thread = bed.read(pk).await;
    assert_eq!((thread.fence.epoch, thread.replica), (2, Some(taker)));
    assert_eq!(bed.store.commit(owners_next).await.unwrap(), Committed::Stale);
}

async fn a_released_thread_is_unowned(bed: Bed) {
    let replica = registered(&bed).await;
    let pk = claimed_by(&bed, "t1", replica).await;
    bed.done(Commit { lease: LeaseChange::Release, ..bed.next(pk).await }).await;
    let thread = bed.read(pk).await;
    assert_eq!((thread.fence.epoch, thread.fence.lease, thread.replica), (1, None, None));
}

async fn a_registration_is_renewed_until_it_expires(bed: Bed) {
    let replica = registered(&bed).await;
    assert!(bed.store.renew(replica, 60_000).await.unwrap());
    assert!(bed.store.renew(replica, -1).await.unwrap());
    assert!(!bed.store.renew(replica, 60_000).await.unwrap(), "expired is expired");
    assert!(!bed.store.renew(Uuid::new_v4(), 60_000).await.unwrap(), "never registered");
}

async fn ending_a_registration_frees_its_threads(bed: Bed) {
    let replica = registered(&bed).await;
    let pk = claimed_by(&bed, "t1", replica).await;
    let owners_next = bed.next(pk).await;
    bed.store.unregister(replica).await.unwrap();
    assert_eq!(bed.read(pk).await.fence.lease, None);
    assert_eq!(bed.store.commit(owners_next).await.unwrap(), Committed::Stale);
    assert!(!bed.store.renew(replica, 60_000).await.unwrap());
}

async fn what_nobody_takes_care_of_is_claimable(bed: Bed) {
    let replica = registered(&bed).await;
    let running = bed.thread("running").await;
    with(&bed, running, ThreadStatus::Running, None).await;
    let due = bed.thread("due").await;
    with(&bed, due, ThreadStatus::Suspended, Some(50)).await;
    let later = bed.thread("later").await;
    with(&bed, later, ThreadStatus::Suspended, Some(5000)).await;
    bed.thread("idle").await;
    let owned = claimed_by(&bed, "owned", replica).await;
    with(&bed, owned, ThreadStatus::Running, Some(1)).await;

    assert_eq!(bed.store.claimable(1000, 10).await.unwrap(), [due, running], "the most overdue first");
    assert_eq!(bed.store.claimable(1000, 1).await.unwrap(), [due]);
    assert_eq!(bed.store.claimable(6000, 10).await.unwrap(), [due, running, later]);
    assert!(bed.store.renew(replica, -1).await.unwrap());
    assert_eq!(bed.store.claimable(1000, 10).await.unwrap(), [owned, due, running], "its owner has expired");
}

async fn the_owner_is_told_what_is_due(bed: Bed) {
    let replica = registered(&bed).await;
    let (second, first) = (claimed_by(&bed, "a", replica).await, claimed_by(&bed, "b", replica).await);
    with(&bed, second, ThreadStatus::Running, Some(60)).await;
    with(&bed, first, ThreadStatus::Running, Some(50)).await;
    let unowned = bed.thread("c").await;
    with(&bed, unowned, ThreadStatus::Running, Some(50)).await;
    assert_eq!(bed.store.due(replica, 49, 10).await.unwrap(), []);
    assert_eq!(bed.store.due(replica, 60, 10).await.unwrap(), [first, second]);
    assert_eq!(bed.store.due(replica, 60, 1).await.unwrap(), [first]);
    assert_eq!(bed.store.due(Uuid::new_v4(), 60, 10).await.unwrap(), []);
}

async fn the_next_wake_is_the_earliest(bed: Bed) {
    assert_eq!(bed.store.next_wake().await.unwrap(), None);
    let (a, b) = (bed.thread("a").await, bed.thread("b").await);
    with(&bed, a, ThreadStatus::Suspended, Some(70)).await;
    with(&bed, b, ThreadStatus::Suspended, Some(60)).await;
    assert_eq!(bed.store.next_wake().await.unwrap(), Some(60));
    with(&bed, b, ThreadStatus::Idle, None).await;
    assert_eq!(bed.store.next_wake().await.unwrap(), Some(70));
}
