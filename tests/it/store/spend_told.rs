//! Caps that are reached are told of, once.

use pes::domain::spend::Unit;
use pes::store::outbox::{NewDelivery, TargetKind};
use pes::store::spend::{HELD, USED};
use pes::store::{Commit, Committed, NewSpendNotice, SpendChange, SpendKey, SpendNotice};

use super::bed::Bed;
use super::deliveries::claim_some;
use super::spend::{day, holds, of, sent, settles, spent};
use crate::support::together;

super::on_every_store!(
    of_many_that_tell_of_a_cap_one_does,
    a_cap_that_leaves_nothing_from_the_start_is_told_of_once,
    a_commit_tells_of_a_cap_that_it_reaches_and_no_other_does,
    a_cap_that_changes_is_told_of_anew,
    each_row_tells_of_its_own_cap,
    of_commits_that_reach_a_cap_together_one_tells,
    a_commit_that_is_not_stored_tells_nobody,
    tokens_are_told_as_tokens,
);

async fn of_many_that_tell_of_a_cap_one_does(bed: Bed) {
    let pk = bed.thread("t1").await;
    bed.done(Commit { spend: vec![settles(day(&bed), 80, 0)], ..bed.next(pk).await }).await;
    let told = |bed: &Bed, n: usize, percent| {
        let (bed, new) = (
            bed.clone(),
            NewDelivery {
                id: format!("dlv_{percent}_{n}").into(),
                kind: TargetKind::Webhook,
                target: "whk".into(),
                ordering_key: None,
                event: "spend.threshold".into(),
                body: "{}".into(),
            },
        );
        async move {
            let told = NewSpendNotice { key: day(&bed), percent, cap: 100, now: 5, deliveries: vec![new] };
            bed.store.add_spend_notice(told).await.unwrap()
        }
    };
    let answers = together((0..20).map(|n| told(&bed, n, 80))).await;
    assert_eq!(answers.iter().filter(|is_told| **is_told).count(), 1);
    assert!(told(&bed, 0, 100).await);
    assert!(!told(&bed, 1, 80).await, "more was told");
    let left = claim_some(&bed, 5, 100).await;
    assert_eq!(left.len(), 2);
    assert!(left.iter().all(|delivery| delivery.tenant == bed.tenant && delivery.event == "spend.threshold"));
}

async fn a_cap_that_leaves_nothing_from_the_start_is_told_of_once(bed: Bed) {
    let tell = async |percent| {
        let told = NewSpendNotice { key: day(&bed), percent, cap: 100, now: 5, deliveries: Vec::new() };
        bed.store.add_spend_notice(told).await.unwrap()
    };
    assert_eq!([tell(80).await, tell(80).await, tell(100).await, tell(80).await], [true, false, true, false]);
    assert_eq!((spent(&bed, day(&bed)).await, told(&bed, day(&bed)).await), ((0, 0), 100));
}

/// A commit that uses this much of a row with a cap of 1,000, and reports it with deliveries of this name.
pub fn telling(key: SpendKey, used: i64, name: &str) -> SpendChange {
    telling_of(1_000, key, used, name)
}

fn telling_of(cap: i64, key: SpendKey, used: i64, name: &str) -> SpendChange {
    let tell = |percent: i64| SpendNotice {
        percent,
        cap,
        from: percent * cap / 100,
        deliveries: vec![NewDelivery {
            id: format!("dlv_{name}_{percent}").into(),
            kind: TargetKind::Webhook,
            target: "whk".into(),
            ordering_key: None,
            event: "spend.threshold".into(),
            body: serde_json::json!({ "percent": percent, "used": USED, "held": HELD }).to_string(),
        }],
    };
    SpendChange { notices: vec![tell(80), tell(100)], ..settles(key, used, 0) }
}

/// The stored deliveries, with their content.
pub async fn left(bed: &Bed) -> Vec<(String, serde_json::Value)> {
    let left = claim_some(bed, i64::MAX - 50, 100).await;
    assert!(left.iter().all(|delivery| delivery.tenant == bed.tenant && delivery.event == "spend.threshold"));
    left.into_iter().map(|one| (one.id.to_string(), serde_json::from_str(&one.body).expect("it is JSON"))).collect()
}

pub async fn told(bed: &Bed, of: SpendKey) -> i64 {
    bed.store.spent(&[of]).await.unwrap()[0].told
}

async fn a_commit_tells_of_a_cap_that_it_reaches_and_no_other_does(bed: Bed) {
    let pk = bed.thread("t1").await;
    bed.done(Commit { spend: vec![holds(day(&bed), 7, 1_000)], ..bed.next(pk).await }).await;
    for (used, name, percent) in [(799, "a", 0), (1, "b", 80), (1, "c", 80), (300, "d", 100), (1, "e", 100)] {
        bed.done(Commit { spend: vec![telling(day(&bed), used, name)], ..bed.next(pk).await }).await;
        assert_eq!(told(&bed, day(&bed)).await, percent, "{name}");
    }
    // In one go.
    bed.done(Commit { spend: vec![telling(of(&bed, "ann", "2026-11"), 2_000, "f")], ..bed.next(pk).await }).await;
    let mut left = left(&bed).await;
    left.sort_by(|a, b| a.0.cmp(&b.0));
    let ids: Vec<&str> = left.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, ["dlv_b_80", "dlv_d_100", "dlv_f_100", "dlv_f_80"]);
    let says = |at: usize| {
        let number = |member: &str| (left[at].1[member].as_f64().expect("a number") * 1e9).round();
        (number("used"), number("held"))
    };
    assert_eq!((says(0), says(1), says(2)), ((800.0, 7.0), (1_101.0, 7.0), (2_000.0, 0.0)), "{left:?}");
}

async fn a_cap_that_changes_is_told_of_anew(bed: Bed) {
    let pk = bed.thread("t1").await;
    let steps =
        [(1_000, 1_000, "a"), (2_000, 500, "b"), (2_000, 100, "c"), (1_200, 1, "d"), (1_200, 1, "e"), (9_000, 1, "f")];
    for (cap, used, name) in steps {
        bed.done(Commit { spend: vec![telling_of(cap, day(&bed), used, name)], ..bed.next(pk).await }).await;
    }
    let mut ids: Vec<String> = left(&bed).await.into_iter().map(|(id, _)| id).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["dlv_a_100", "dlv_a_80", "dlv_c_80", "dlv_d_100", "dlv_d_80"]);
    // A refused run also sends its delivery.
    let tell = |cap| {
        let told = NewSpendNotice { key: day(&bed), percent: 80, cap, now: 5, deliveries: Vec::new() };
        let store = bed.store.clone();
        async move { store.add_spend_notice(told).await.unwrap() }
    };
    assert_eq!([tell(1_200).await, tell(1_500).await, tell(1_500).await], [false, true, false]);
    let row = &bed.store.spent(&[day(&bed)]).await.unwrap()[0];
    assert_eq!([(80, 1_500), (80, 1_600), (100, 1_500)].map(|(p, cap)| row.is_told(p, cap)), [true, false, false]);
}

async fn each_row_tells_of_its_own_cap(bed: Bed) {
    let pk = bed.thread("t1").await;
    let (ann, other) = (of(&bed, "ann", "2026-11-24"), day(&bed.other_tenant().await));
    let rows = [day(&bed), ann, of(&bed, "", "2026-11"), other];
    let spend = rows.iter().map(|row| settles(row.clone(), 1, 0)).collect();
    bed.done(Commit { spend, ..bed.next(pk).await }).await;
    for (nth, row) in rows.iter().enumerate() {
        assert_eq!(told(&bed, row.clone()).await, 0, "{row:?}");
        bed.done(Commit { spend: vec![telling(row.clone(), 850, &nth.to_string())], ..bed.next(pk).await }).await;
        assert_eq!(told(&bed, row.clone()).await, 80, "{row:?}");
    }
}

async fn of_commits_that_reach_a_cap_together_one_tells(bed: Bed) {
    together((0..20).map(|n| {
        let bed = bed.clone();
        async move {
            let pk = bed.thread(&format!("t{n}")).await;
            let spend = vec![telling(day(&bed), 100, &format!("{n}"))];
            assert_eq!(sent(&bed, Commit { spend, ..bed.next(pk).await }).await, Committed::Done);
        }
    }))
    .await;
    let mut percents: Vec<i64> = left(&bed).await.iter().map(|(_, said)| said["percent"].as_i64().unwrap()).collect();
    percents.sort_unstable();
    assert_eq!((percents, spent(&bed, day(&bed)).await), (vec![80, 100], (2_000, 0)));
}

async fn a_commit_that_is_not_stored_tells_nobody(bed: Bed) {
    let pk = bed.thread("t1").await;
    let mut stale = Commit { spend: vec![telling(day(&bed), 1_000, "a")], ..bed.next(pk).await };
    stale.fence.version -= 1;
    assert_eq!(bed.store.commit(stale).await.unwrap(), Committed::Stale);
    assert_eq!((left(&bed).await, told(&bed, day(&bed)).await), (vec![], 0));
}

async fn tokens_are_told_as_tokens(bed: Bed) {
    let pk = bed.thread("t1").await;
    let row = SpendKey { unit: Unit::Tokens, ..day(&bed) };
    bed.done(Commit { spend: vec![telling(row, 850, "a")], ..bed.next(pk).await }).await;
    let left = left(&bed).await;
    assert_eq!(left[0].1, serde_json::json!({ "percent": 80, "used": 850, "held": 0 }));
}
