//! Leases: which process owns a thread, and when another one may claim it.

use pes::domain::ids::ThreadPk;
use pes::domain::thread::ThreadStatus;
use pes::engine::step::{Keep, RowKind};
use pes::store::{Claimable, Commit, Committed, Crashes, LeaseChange, PROCESS_CRASHES, Registration};
use uuid::Uuid;

use super::bed::{Bed, row};

super::on_every_store!(
    a_claim_takes_the_lease_and_moves_the_epoch,
    nobody_takes_what_a_living_owner_holds,
    an_expired_owner_loses_what_it_holds,
    a_released_thread_is_unowned,
    a_registration_is_renewed_until_it_expires,
    ending_a_registration_frees_its_threads,
    what_nobody_takes_care_of_is_claimable,
    the_owner_is_told_what_is_due,
    tenants_take_turns_however_many_threads_one_of_them_has,
    the_next_wake_is_the_earliest,
    what_is_reserved_is_nobody_elses_and_its_own_until_it_is_claimed,
    a_process_that_dies_counts_for_what_it_had_in_hand,
    one_that_was_in_hand_each_time_is_found_among_others,
    who_comes_back_takes_back_what_was_counted,
    a_death_is_known_until_it_is_forgotten,
    who_waits_to_begin_is_known_of_each_tenant_the_longest_waiting_first,
);

fn claim(replica: Uuid) -> LeaseChange {
    LeaseChange::Claim { lease: Uuid::new_v4(), replica }
}

async fn registered(bed: &Bed) -> Uuid {
    let replica = Uuid::new_v4();
    bed.register(replica, 60_000).await;
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
    let expired = registered(&bed).await;
    let pk = claimed_by(&bed, "t1", expired).await;
    let (owners_next, taker) = (bed.next(pk).await, Uuid::new_v4());
    bed.store.renew(expired, -1).await.unwrap();
    let early = Commit { lease: claim(taker), ..bed.next(pk).await };
    assert_eq!(bed.store.commit(early).await.unwrap(), Committed::Stale, "what it had in hand is counted first");
    dies(&bed, expired).await;
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
    assert!(bed.store.renew(replica, 60_000).await.unwrap().is_renewed());
    assert!(bed.store.renew(replica, -1).await.unwrap().is_renewed());
    let is_left = !bed.store.leases_expire();
    assert_eq!(
        bed.store.renew(replica, 60_000).await.unwrap().is_renewed(),
        is_left,
        "expired is expired, where it can be"
    );
    assert!(!bed.store.renew(Uuid::new_v4(), 60_000).await.unwrap().is_renewed(), "never registered");
}

async fn ending_a_registration_frees_its_threads(bed: Bed) {
    let replica = registered(&bed).await;
    let pk = claimed_by(&bed, "t1", replica).await;
    let owners_next = bed.next(pk).await;
    assert!(bed.read(pk).await.is_owned);
    bed.store.unregister(replica).await.unwrap();
    assert!(!bed.read(pk).await.is_owned);
    bed.done(Commit { lease: claim(Uuid::new_v4()), ..bed.next(pk).await }).await;
    assert_eq!(bed.store.commit(owners_next).await.unwrap(), Committed::Stale);
    assert!(!bed.store.renew(replica, 60_000).await.unwrap().is_renewed());
    assert_eq!(bed.read(pk).await.crashes, Crashes::default(), "it took leave");
}

async fn what_nobody_takes_care_of_is_claimable(bed: Bed) {
    let replica = registered(&bed).await;
    let running = bed.thread("running").await;
    with(&bed, running, ThreadStatus::Running, None).await;
    let timed = bed.thread("timed").await;
    with(&bed, timed, ThreadStatus::Running, Some(5000)).await;
    let due = bed.thread("due").await;
    with(&bed, due, ThreadStatus::Suspended, Some(50)).await;
    let later = bed.thread("later").await;
    with(&bed, later, ThreadStatus::Suspended, Some(5000)).await;
    bed.thread("idle").await;
    let owned = claimed_by(&bed, "owned", replica).await;
    with(&bed, owned, ThreadStatus::Running, Some(1)).await;

    assert_eq!(bed.claimable(1000, 10).await, [due, running, timed], "the most overdue first");
    assert_eq!(bed.claimable(1000, 1).await, [due]);
    assert_eq!(bed.claimable(6000, 10).await, [due, running, timed, later]);
    dies(&bed, replica).await;
    assert_eq!(bed.claimable(1000, 10).await, [owned, due, running, timed], "its owner has expired");
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

/// A tenant's backlog does not delay another tenant's first thread, with an owner and without.
async fn tenants_take_turns_however_many_threads_one_of_them_has(bed: Bed) {
    let (replica, other) = (registered(&bed).await, bed.other_tenant().await);
    let mut crowd = Vec::new();
    for nth in 0..6 {
        let pk = bed.thread(&format!("t{nth}")).await;
        with(&bed, pk, ThreadStatus::Running, Some(10 + nth)).await;
        crowd.push(pk);
    }
    let (late, later) = (other.thread("t1").await, other.thread("t2").await);
    with(&other, late, ThreadStatus::Suspended, Some(100)).await;
    with(&other, later, ThreadStatus::Suspended, Some(200)).await;
    let turns = [crowd[0], late, crowd[1], later, crowd[2], crowd[3]];
    assert_eq!(bed.claimable(1000, 6).await, turns);
    assert_eq!(bed.claimable(150, 4).await, [crowd[0], late, crowd[1], crowd[2]]);

    for pk in crowd.iter().chain([&late, &later]) {
        let next = bed.next(*pk).await;
        bed.done(Commit { lease: claim(replica), ..next }).await;
    }
    assert_eq!(bed.store.due(replica, 1000, 6).await.unwrap(), turns);
    assert_eq!(bed.store.due(replica, 1000, 2).await.unwrap(), turns[..2]);
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

async fn what_is_reserved_is_nobody_elses_and_its_own_until_it_is_claimed(bed: Bed) {
    let (replica, lease) = (registered(&bed).await, Uuid::new_v4());
    let pk = bed.thread("t1").await;
    with(&bed, pk, ThreadStatus::Running, None).await;
    assert_eq!(bed.store.reserve(replica, &[pk]).await.unwrap(), [pk]);
    assert_eq!(bed.claimable(1000, 9).await, []);
    assert_eq!(bed.store.reserve(Uuid::new_v4(), &[pk]).await.unwrap(), []);
    let again = bed.store.claimable(1000, replica, lease, 9).await.unwrap();
    assert_eq!((again.len(), again[0].pk), (1, pk), "until it has been claimed");
    assert_eq!(bed.store.reserve(replica, &[pk]).await.unwrap(), [pk], "its own");
    bed.done(Commit { lease: LeaseChange::Claim { lease, replica }, ..bed.next(pk).await }).await;
    assert_eq!(bed.store.claimable(1000, replica, lease, 9).await.unwrap(), []);
}

async fn dies(bed: &Bed, replica: Uuid) {
    bed.store.renew(replica, -1).await.unwrap();
    bed.store.end_expired().await.unwrap();
    // On a store with one process the next process finds it.
    registered(bed).await;
}

/// In the order of their keys.
async fn crashed(bed: &Bed, pks: &[ThreadPk]) -> Vec<(ThreadPk, Crashes)> {
    let mut found = bed.store.crashed(pks).await.unwrap();
    found.sort_by_key(|thread| thread.pk);
    found.into_iter().map(|thread| (thread.pk, thread.crashes)).collect()
}

async fn a_process_that_dies_counts_for_what_it_had_in_hand(bed: Bed) {
    let first = registered(&bed).await;
    let (a, b) = (claimed_by(&bed, "a", first).await, claimed_by(&bed, "b", first).await);
    let rests = claimed_by(&bed, "c", first).await;
    bed.done(Commit { lease: LeaseChange::Release, ..bed.next(rests).await }).await;
    dies(&bed, first).await;
    let among_two = Crashes { times: 1, attributed: 0, among: 2 };
    assert_eq!((bed.read(a).await.crashes, bed.read(b).await.crashes), (among_two, among_two));
    assert_eq!(bed.read(rests).await.crashes, Crashes::default());
    assert_eq!(crashed(&bed, &[b, rests, a]).await, [(a, among_two), (b, among_two)]);
    assert!(crashed(&bed, &[rests]).await.is_empty());

    let next = registered(&bed).await;
    assert_eq!(bed.store.reserve(next, &[a]).await.unwrap(), [a], "it died before it had so much as read it");
    dies(&bed, next).await;
    assert_eq!(bed.read(a).await.crashes, Crashes { times: 2, attributed: 1, among: 1 });
    assert_eq!(crashed(&bed, &[a]).await, [(a, bed.read(a).await.crashes)]);
    bed.store.forget_crashes_of_others(&[a, b]).await.unwrap();
    assert_eq!(bed.read(a).await.crashes, Crashes { times: 1, attributed: 1, among: 1 });
    assert_eq!(bed.read(b).await.crashes, Crashes::default());
    bed.store.count_crash(a).await.unwrap();
    assert_eq!(bed.read(a).await.crashes.attributed, 2);
    bed.store.count_crash(b).await.unwrap();
    bed.store.forget_crashes(&[a]).await.unwrap();
    assert_eq!(bed.read(a).await.crashes, Crashes::default());
    assert_eq!(bed.read(b).await.crashes.attributed, 1, "another thread");
}

async fn one_that_was_in_hand_each_time_is_found_among_others(bed: Bed) {
    let poison = bed.thread("poison").await;
    with(&bed, poison, ThreadStatus::Running, None).await;
    for nth in 1..=3 {
        let replica = registered(&bed).await;
        bed.store.reserve(replica, &[poison]).await.unwrap();
        let fresh = claimed_by(&bed, &format!("fresh{nth}"), replica).await;
        dies(&bed, replica).await;
        let attributed = i64::from(nth == 3);
        let crashes = bed.read(poison).await.crashes;
        assert_eq!((crashes.times, crashes.attributed), (nth, attributed));
        let found = bed.store.claimable(1000, Uuid::new_v4(), Uuid::new_v4(), 9).await.unwrap();
        assert_eq!(found, [Claimable { pk: poison, crashes }], "whoever claims it is told");
        assert_eq!(bed.read(fresh).await.crashes, Crashes { times: 1, attributed: 0, among: 2 });
    }
}

async fn who_comes_back_takes_back_what_was_counted(bed: Bed) {
    let replica = registered(&bed).await;
    let pk = claimed_by(&bed, "t1", replica).await;
    dies(&bed, replica).await;
    assert_eq!(bed.read(pk).await.crashes.attributed, 1);
    let other = bed.thread("t2").await;
    bed.store.count_crash(other).await.unwrap();
    let again = Registration { replica: Uuid::new_v4(), name: None, former: Some(replica) };
    bed.store.register(again, 60_000).await.unwrap();
    assert_eq!(bed.read(pk).await.crashes, Crashes::default(), "it was cut off, not dead");
    assert_eq!(bed.read(other).await.crashes.attributed, 1, "that was another crash");
}

/// Whatever it owned, even nothing.
async fn a_death_is_known_until_it_is_forgotten(bed: Bed) {
    let stopped = registered(&bed).await;
    bed.store.unregister(stopped).await.unwrap();
    let died = registered(&bed).await;
    assert_eq!(bed.store.process_crashes().await.unwrap(), 0, "who stops does not die");
    dies(&bed, died).await;
    assert_eq!(bed.store.process_crashes().await.unwrap(), 1);
    let again = Registration { replica: Uuid::new_v4(), name: None, former: Some(died) };
    bed.store.register(again, 60_000).await.unwrap();
    assert_eq!(
        bed.store.process_crashes().await.unwrap(),
        i64::from(!bed.store.leases_expire()),
        "it was cut off, not dead"
    );
    let died = registered(&bed).await;
    dies(&bed, died).await;
    assert!(bed.store.process_crashes().await.unwrap() > 0);
    bed.store.forget_crashes(&[PROCESS_CRASHES]).await.unwrap();
    bed.store.count_crash(bed.thread("t1").await).await.unwrap();
    assert_eq!(bed.store.process_crashes().await.unwrap(), 0, "that of an actor is not one of the process");
}

async fn who_waits_to_begin_is_known_of_each_tenant_the_longest_waiting_first(bed: Bed) {
    let waits = |since| row(RowKind::WaitsToBegin, "", since, Keep::Never);
    let (first, second, third) = (bed.thread("a").await, bed.thread("b").await, bed.thread("c").await);
    assert!(bed.store.tenants_to_begin().await.unwrap().is_empty());
    for (pk, since) in [(first, 30), (second, 10), (third, 20)] {
        bed.write(pk, vec![waits(since)]).await;
    }
    let other = bed.other_tenant().await;
    let does_not_wait = bed.thread("d").await;
    bed.write(does_not_wait, vec![row(RowKind::Item, "i", 5, Keep::Always)]).await;
    other.write(other.thread("a").await, vec![row(RowKind::Item, "i", 5, Keep::Always)]).await;
    let to_begin = async |tenant, most| bed.store.threads_to_begin(tenant, most).await.unwrap();
    assert_eq!(bed.store.tenants_to_begin().await.unwrap(), [bed.tenant]);
    assert_eq!(to_begin(bed.tenant, 9).await, [second, third, first]);
    assert_eq!(to_begin(bed.tenant, 2).await, [second, third]);
    assert!(to_begin(other.tenant, 9).await.is_empty());
    let theirs = other.thread("b").await;
    other.write(theirs, vec![waits(15)]).await;
    assert_eq!(to_begin(bed.tenant, 9).await, [second, third, first]);
    assert_eq!(to_begin(other.tenant, 9).await, [theirs]);
    let counted = async |most| bed.store.count_to_begin(bed.tenant, most).await.unwrap();
    assert_eq!((counted(9).await, counted(2).await), (3, 2));
    other.write(theirs, vec![waits(0)]).await;

    for pk in [first, second, third] {
        bed.write(pk, vec![waits(0)]).await;
    }
    assert!(bed.store.tenants_to_begin().await.unwrap().is_empty() && to_begin(bed.tenant, 9).await.is_empty());
    assert_eq!(counted(9).await, 0);
}
