//! A run is found by its tenant under the lookup keys of the commit that accepted it, as long as its thread exists.

use pes::domain::lookup::{FoundRun, LookupKey};
use pes::store::{Commit, Committed, LookupPosition, NewLookup};

use super::bed::Bed;

super::on_every_store!(
    runs_are_found_newest_first,
    a_refused_commit_leaves_no_key,
    keys_of_tenants_kinds_and_digests_are_apart,
    who_listens_longest_is_remembered,
    keys_die_with_their_thread,
    old_keys_are_forgotten_a_few_at_a_time,
    the_last_run_of_a_schedule_is_remembered,
    keys_that_have_to_stay_are_examined_a_few_at_a_time,
);

fn key(digest: &str) -> LookupKey {
    LookupKey { kind: "chat", digest: digest.to_owned() }
}

fn under(digest: &str, run: &str) -> Vec<NewLookup> {
    vec![NewLookup { key: key(digest), run: run.into() }]
}

fn runs(found: &[FoundRun]) -> Vec<&str> {
    found.iter().map(|one| one.run_id.as_str()).collect()
}

async fn runs_are_found_newest_first(bed: Bed) {
    for (at, thread) in ["t1", "t2", "t3"].into_iter().enumerate() {
        let (now, run) = (at as i64 + 1, format!("run_{thread}"));
        // The same key twice in one commit is one.
        let lookups = [under("d", &run), under("d", &run), under("other", &run)].concat();
        bed.done(Commit { lookups, now, ..bed.creating(thread) }).await;
    }
    let found = bed.store.lookups(bed.tenant, &key("d"), 9).await.unwrap();
    assert_eq!(runs(&found), ["run_t3", "run_t2", "run_t1"]);
    let newest = FoundRun { thread_id: "t3".into(), run_id: "run_t3".into(), created_at: 3, listening_until: 0 };
    assert_eq!(bed.store.lookups(bed.tenant, &key("d"), 1).await.unwrap(), [newest]);
}

async fn a_refused_commit_leaves_no_key(bed: Bed) {
    let pk = bed.thread("t1").await;
    let mut stale = Commit { lookups: under("d", "r"), ..bed.next(pk).await };
    stale.fence.version -= 1;
    assert_eq!(bed.store.commit(stale).await.unwrap(), Committed::Stale);
    assert_eq!(bed.store.lookups(bed.tenant, &key("d"), 9).await.unwrap(), []);
    bed.done(Commit { lookups: under("d", "r"), ..bed.next(pk).await }).await;
    assert_eq!(
        bed.store.lookups(bed.tenant, &key("d"), 9).await.unwrap().len(),
        1,
        "a commit of a thread that is there"
    );
}

async fn keys_of_tenants_kinds_and_digests_are_apart(bed: Bed) {
    let other = bed.other_tenant().await;
    bed.done(Commit { lookups: under("d", "mine"), ..bed.creating("t1") }).await;
    other.done(Commit { lookups: under("d", "theirs"), ..other.creating("t1") }).await;
    assert_eq!(runs(&bed.store.lookups(bed.tenant, &key("d"), 9).await.unwrap()), ["mine"]);
    assert_eq!(runs(&bed.store.lookups(other.tenant, &key("d"), 9).await.unwrap()), ["theirs"]);
    assert!(!bed.store.listen_until(other.tenant, &key("d"), &"mine".into(), 70).await.unwrap());
    let retry = LookupKey { kind: "retry", ..key("d") };
    for unknown in [retry, key("e")] {
        assert_eq!(bed.store.lookups(bed.tenant, &unknown, 9).await.unwrap(), []);
    }
}

async fn who_listens_longest_is_remembered(bed: Bed) {
    bed.done(Commit { lookups: under("d", "r"), ..bed.creating("t1") }).await;
    let (store, tenant, run) = (&bed.store, bed.tenant, "r".into());
    for (until, lasts) in [(50, 50), (40, 50), (60, 60)] {
        assert!(store.listen_until(tenant, &key("d"), &run, until).await.unwrap());
        assert_eq!(store.lookups(tenant, &key("d"), 9).await.unwrap()[0].listening_until, lasts);
    }
    assert!(!store.listen_until(tenant, &key("d"), &"s".into(), 70).await.unwrap());
}

async fn keys_die_with_their_thread(bed: Bed) {
    for thread in ["t1", "t2"] {
        bed.done(Commit { lookups: under("d", thread), ..bed.creating(thread) }).await;
    }
    let gone = bed.store.thread(bed.tenant, &"t1".into()).await.unwrap().unwrap().pk;
    assert!(bed.erase(gone).await);
    assert_eq!(runs(&bed.store.lookups(bed.tenant, &key("d"), 9).await.unwrap()), ["t2"]);
    assert_eq!(forget(&bed, i64::MAX, 9).await, [1], "nothing else was left");
}

/// How many keys each step deletes.
async fn forget(bed: &Bed, before: i64, limit: u32) -> Vec<u64> {
    let (mut behind, mut steps) = (LookupPosition::beginning(), Vec::new());
    loop {
        let forgotten = bed.store.forget_lookups(before, &behind, limit).await.unwrap();
        steps.push(forgotten.deleted);
        match forgotten.next {
            Some(next) => behind = next,
            None => return steps,
        }
    }
}

async fn old_keys_are_forgotten_a_few_at_a_time(bed: Bed) {
    for now in 1..=7 {
        bed.done(Commit { lookups: under("d", &format!("r{now}")), now, ..bed.creating(&format!("t{now}")) }).await;
    }
    assert_eq!(forget(&bed, 6, 2).await, [2, 2, 1]);
    assert_eq!(runs(&bed.store.lookups(bed.tenant, &key("d"), 9).await.unwrap()), ["r7", "r6"]);
}

/// Its run may be the only one of a month, or wait even longer for a person.
async fn the_last_run_of_a_schedule_is_remembered(bed: Bed) {
    let of = |digest: &str| LookupKey { kind: "schedule", digest: digest.to_owned() };
    for (now, digest) in [(1, "a"), (2, "b"), (3, "a"), (4, "a")] {
        let lookups = vec![NewLookup { key: of(digest), run: format!("r{now}").as_str().into() }];
        bed.done(Commit { lookups, now, ..bed.creating(&format!("t{now}")) }).await;
    }
    let other = bed.other_tenant().await;
    let lookups = vec![NewLookup { key: of("b"), run: "theirs".into() }];
    other.done(Commit { lookups, now: 5, ..other.creating("t") }).await;
    assert_eq!(forget(&bed, i64::MAX, 9).await, [2]);
    assert_eq!(runs(&bed.store.lookups(bed.tenant, &of("a"), 9).await.unwrap()), ["r4"]);
    assert_eq!(runs(&bed.store.lookups(bed.tenant, &of("b"), 9).await.unwrap()), ["r2"]);
}

/// However many schedules there were.
async fn keys_that_have_to_stay_are_examined_a_few_at_a_time(bed: Bed) {
    let of = |n: usize| LookupKey { kind: "schedule", digest: format!("d{n:04}") };
    let lookups = (0..2_500).map(|n| NewLookup { key: of(n), run: "r".into() }).collect();
    bed.done(Commit { lookups, now: 1, ..bed.creating("t1") }).await;
    bed.done(Commit { lookups: under("d", "chat"), now: 2, ..bed.creating("t2") }).await;
    assert_eq!(forget(&bed, 3, 9).await, [0, 1]);
    assert_eq!(runs(&bed.store.lookups(bed.tenant, &of(2_499), 9).await.unwrap()), ["r"]);
    assert_eq!(bed.store.lookups(bed.tenant, &key("d"), 9).await.unwrap(), []);
}
