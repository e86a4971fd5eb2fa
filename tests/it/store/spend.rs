//! Spending under a cap is counted in the commit that spends, and never exceeds the cap.

use pes::domain::observation::ObservationType;
use pes::domain::spend::Unit;
use pes::store::{Commit, Committed, Erasure, PastPeriods, SpendChange, SpendKey};

use super::bed::{Bed, record};
use super::spend_told::{left, telling, told};
use crate::support::together;

super::on_every_store!(
    of_many_commits_as_many_are_stored_as_fit,
    a_commit_that_does_not_fit_changes_nothing,
    every_row_has_its_own_cap,
    what_only_settles_is_stored_beyond_the_cap,
    a_commit_that_is_refused_spends_nothing,
    a_commit_that_is_refused_leaves_the_cap_to_others,
    what_begins_and_ends_side_by_side_adds_up,
    a_thread_that_is_deleted_gives_back_what_it_held,
    a_thread_that_is_deleted_counts_and_tells_what_its_last_calls_took,
    periods_that_are_over_long_ago_are_forgotten,
);

pub fn of(bed: &Bed, key: &str, period: &str) -> SpendKey {
    SpendKey { tenant: bed.tenant, key_name: key.to_owned(), period: period.to_owned(), unit: Unit::Usd }
}

pub fn day(bed: &Bed) -> SpendKey {
    of(bed, "", "2026-11-24")
}

pub fn holds(key: SpendKey, held: i64, cap: i64) -> SpendChange {
    SpendChange { key, used: 0, held, cap: Some(cap), notices: Vec::new() }
}

pub fn settles(key: SpendKey, used: i64, held: i64) -> SpendChange {
    SpendChange { key, used, held: -held, cap: None, notices: Vec::new() }
}

pub async fn spent(bed: &Bed, of: SpendKey) -> (i64, i64) {
    let spent = bed.store.spent(&[of]).await.unwrap();
    (spent[0].used, spent[0].held)
}

/// Retries while it is stale: another commit wrote the rows at that moment.
pub async fn sent(bed: &Bed, commit: Commit) -> Committed {
    loop {
        match bed.store.commit(commit.clone()).await.unwrap() {
            Committed::Stale => {}
            answer => break answer,
        }
    }
}

async fn of_many_commits_as_many_are_stored_as_fit(bed: Bed) {
    let answers = together((0..32).map(|n| {
        let bed = bed.clone();
        async move {
            let spend = vec![holds(of(&bed, "", "2026-11"), 100, 9_999), holds(day(&bed), 100, 1_050)];
            sent(&bed, Commit { spend, ..bed.creating(&format!("t{n}")) }).await
        }
    }))
    .await;
    assert_eq!(answers.iter().filter(|answer| **answer == Committed::Done).count(), 10);
    assert_eq!(answers.iter().filter(|answer| **answer == Committed::Capped).count(), 22);
    assert_eq!(spent(&bed, day(&bed)).await, (0, 1_000));
    assert_eq!(spent(&bed, of(&bed, "", "2026-11")).await, (0, 1_000));
}

async fn a_commit_that_does_not_fit_changes_nothing(bed: Bed) {
    let pk = bed.thread("t1").await;
    let before = bed.everything(pk).await;
    // The first of them alone would fit.
    let spend = || vec![holds(of(&bed, "ann", "2026-11-24"), 5, 10), holds(day(&bed), 11, 10)];
    let records = vec![record("o", ObservationType::RunStarted, "r")];
    let commit = Commit { records, spend: spend(), idempotency: Some(bed.key("k")), ..bed.next(pk).await };
    assert_eq!(bed.store.commit(commit).await.unwrap(), Committed::Capped);
    assert_eq!(bed.everything(pk).await, before);
    let new = Commit { spend: spend(), ..bed.creating("t2") };
    let created = new.pk;
    assert_eq!(bed.store.commit(new).await.unwrap(), Committed::Capped);
    assert!(bed.store.thread_by_pk(created).await.unwrap().is_none());
    for row in [of(&bed, "ann", "2026-11-24"), day(&bed)] {
        assert_eq!(spent(&bed, row).await, (0, 0));
    }
    bed.done(Commit { idempotency: Some(bed.key("k")), ..bed.next(pk).await }).await;
}

async fn every_row_has_its_own_cap(bed: Bed) {
    let other = bed.other_tenant().await;
    let rows = [
        day(&bed),
        day(&other),
        of(&bed, "ann", "2026-11-24"),
        of(&bed, "a\0n\u{1}", "2026-11-24"),
        of(&bed, "", "2026-11-25"),
        SpendKey { unit: Unit::Tokens, ..day(&bed) },
    ];
    let pk = bed.thread("t1").await;
    for row in &rows {
        bed.done(Commit { spend: vec![holds(row.clone(), 10, 10)], ..bed.next(pk).await }).await;
        let more = Commit { spend: vec![holds(row.clone(), 1, 10)], ..bed.next(pk).await };
        assert_eq!(bed.store.commit(more).await.unwrap(), Committed::Capped);
    }
    let all = bed.store.spent(&rows).await.unwrap();
    assert!(all.iter().all(|spent| (spent.used, spent.held) == (0, 10)));
    assert!(all.iter().map(|spent| &spent.key).eq(&rows), "in the order in which they were asked for");
}

async fn what_only_settles_is_stored_beyond_the_cap(bed: Bed) {
    let pk = bed.thread("t1").await;
    bed.done(Commit { spend: vec![holds(day(&bed), 10, 10)], ..bed.next(pk).await }).await;
    bed.done(Commit { spend: vec![settles(day(&bed), 12, 10)], ..bed.next(pk).await }).await;
    assert_eq!(spent(&bed, day(&bed)).await, (12, 0));
    let more = Commit { spend: vec![holds(day(&bed), 1, 10)], ..bed.next(pk).await };
    assert_eq!(bed.store.commit(more).await.unwrap(), Committed::Capped);
    // One that settles without an earlier reservation.
    bed.done(Commit { spend: vec![settles(of(&bed, "bob", "2026-11-24"), 3, 0)], ..bed.next(pk).await }).await;
    assert_eq!(spent(&bed, of(&bed, "bob", "2026-11-24")).await, (3, 0));
}

async fn a_commit_that_is_refused_spends_nothing(bed: Bed) {
    let pk = bed.thread("t1").await;
    bed.done(Commit { idempotency: Some(bed.key("k")), ..bed.creating("t2") }).await;
    let spend = || vec![holds(day(&bed), 10, 10)];
    let mut stale = Commit { spend: spend(), ..bed.next(pk).await };
    stale.fence.version -= 1;
    assert_eq!(bed.store.commit(stale).await.unwrap(), Committed::Stale);
    let exists = Commit { spend: spend(), ..bed.creating("t1") };
    assert_eq!(bed.store.commit(exists).await.unwrap(), Committed::Exists);
    let duplicate = Commit { spend: spend(), idempotency: Some(bed.key("k")), ..bed.next(pk).await };
    assert_eq!(bed.store.commit(duplicate).await.unwrap(), Committed::Duplicate);
    assert_eq!(spent(&bed, day(&bed)).await, (0, 0));
}

/// Written together, the refused ones first.
async fn a_commit_that_is_refused_leaves_the_cap_to_others(bed: Bed) {
    let mut commits = Vec::new();
    for n in 0..32 {
        let pk = bed.thread(&format!("t{n}")).await;
        commits.push(Commit { spend: vec![holds(day(&bed), 10, 10)], ..bed.next(pk).await });
    }
    let (last, stale) = commits.split_last_mut().expect("there are some");
    stale.iter_mut().for_each(|commit| commit.fence.version -= 1);
    let last = last.clone();
    let refused = futures_util::future::join_all(stale.iter().map(|commit| bed.store.commit(commit.clone())));
    let (refused, accepted) = tokio::join!(refused, bed.store.commit(last));
    assert!(refused.into_iter().all(|answer| answer.unwrap() == Committed::Stale));
    assert_eq!(accepted.unwrap(), Committed::Done);
}

/// Threads that start and end calls concurrently, with their rows in different orders: nothing is lost, and no deadlock
/// occurs.
async fn what_begins_and_ends_side_by_side_adds_up(bed: Bed) {
    const CALLS: i64 = 10;
    together((0..16).map(|n| {
        let bed = bed.clone();
        async move {
            let pk = bed.thread(&format!("t{n}")).await;
            let rows = |n: i64| {
                let mut rows = vec![day(&bed), of(&bed, "ann", "2026-11-24"), of(&bed, "", "2026-11")];
                rows.rotate_left((n % 3) as usize);
                rows
            };
            for call in 0..CALLS {
                let begins = rows(n + call).into_iter().map(|row| holds(row, 5, 1_000_000)).collect();
                let begun = Commit { spend: begins, ..bed.next(pk).await };
                assert_eq!(sent(&bed, begun).await, Committed::Done);
                let ends = rows(n).into_iter().map(|row| settles(row, 3, 5)).collect();
                let ended = Commit { spend: ends, ..bed.next(pk).await };
                assert_eq!(sent(&bed, ended).await, Committed::Done);
            }
        }
    }))
    .await;
    for row in [day(&bed), of(&bed, "ann", "2026-11-24"), of(&bed, "", "2026-11")] {
        assert_eq!(spent(&bed, row).await, (16 * CALLS * 3, 0));
    }
}

async fn a_thread_that_is_deleted_gives_back_what_it_held(bed: Bed) {
    let pk = bed.thread("t1").await;
    bed.done(Commit { spend: vec![holds(day(&bed), 10, 10)], ..bed.next(pk).await }).await;
    let version = bed.read(pk).await.fence.version;
    let erasure = |version| Erasure { spend: vec![settles(day(&bed), 0, 10)], ..bed.erasure(pk, version) };
    assert!(!bed.store.delete_thread(erasure(version - 1)).await.unwrap());
    assert_eq!(spent(&bed, day(&bed)).await, (0, 10));
    assert!(bed.store.delete_thread(erasure(version)).await.unwrap());
    assert_eq!(spent(&bed, day(&bed)).await, (0, 0));
}

/// Also amounts without a reservation, because the cap did not exist when the call started.
async fn a_thread_that_is_deleted_counts_and_tells_what_its_last_calls_took(bed: Bed) {
    let pk = bed.thread("t1").await;
    bed.done(Commit { spend: vec![holds(day(&bed), 10, 1_000)], ..bed.next(pk).await }).await;
    let version = bed.read(pk).await.fence.version;
    let reserved = SpendChange { held: -10, ..telling(day(&bed), 850, "a") };
    let spend = vec![settles(of(&bed, "ann", "2026-11"), 3, 0), reserved];
    assert!(bed.store.delete_thread(Erasure { spend, ..bed.erasure(pk, version) }).await.unwrap());
    assert_eq!(spent(&bed, day(&bed)).await, (850, 0));
    assert_eq!(spent(&bed, of(&bed, "ann", "2026-11")).await, (3, 0));
    let left = left(&bed).await;
    assert_eq!((left.len(), left[0].0.as_str(), told(&bed, day(&bed)).await), (1, "dlv_a_80", 80));
}

async fn periods_that_are_over_long_ago_are_forgotten(bed: Bed) {
    let pk = bed.thread("t").await;
    let other = bed.other_tenant().await;
    let tokens = |period: &str| SpendKey { unit: Unit::Tokens, ..of(&bed, "", period) };
    let past = [
        of(&bed, "", "2025-10-19"),
        of(&bed, "ann", "2025-10-19"),
        of(&bed, "", "2025-09"),
        tokens("2025-10-19"),
        tokens("2025-09"),
    ];
    let kept = [
        of(&bed, "", "2025-10"),
        of(&bed, "", "2025-10-20"),
        day(&bed),
        of(&other, "", "2025-10-19"),
        tokens("2025-10"),
        tokens("2025-10-20"),
    ];
    let held = of(&bed, "bob", "2025-10-19");
    let mut spend: Vec<SpendChange> = past.iter().chain(&kept).map(|key| settles(key.clone(), 7, 0)).collect();
    spend.push(holds(held.clone(), 5, 10));
    spend.sort_by(|a, b| a.key.cmp(&b.key));
    bed.done(Commit { spend, ..bed.next(pk).await }).await;
    let before = PastPeriods { day: "2025-10-20".to_owned(), month: "2025-10".to_owned() };
    assert_eq!(bed.store.forget_spend(bed.tenant, &before, 2).await.unwrap(), 2, "no more at once");
    assert_eq!(bed.store.forget_spend(bed.tenant, &before, 100).await.unwrap(), 3);
    for key in past {
        assert_eq!(spent(&bed, key.clone()).await, (0, 0), "{key:?}");
    }
    for key in kept {
        assert_eq!(spent(&bed, key.clone()).await, (7, 0), "{key:?}");
    }
    assert_eq!(spent(&bed, held).await, (0, 5), "a call still has to settle it");
}
