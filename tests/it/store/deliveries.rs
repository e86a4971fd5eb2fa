//! The outbox: deliveries are stored, taken, retried and settled.

use pes::domain::ids::{DeliveryId, TenantPk, ThreadPk};
use pes::store::outbox::{
    Abandoned, Abandonment, Delivery, DeliveryOutcome, DeliveryStatus, NewDelivery, Settlement, Share, TargetKind,
};
use pes::store::{Commit, Committed, HeldCounts};

use super::bed::{Bed, after, hold_back, page};
use super::on_every_store;
use crate::support::together;

on_every_store!(
    what_a_commit_leaves_is_stored_with_it_or_not_at_all,
    a_delivery_is_claimed_by_one_at_a_time,
    tenants_are_known_that_have_something_to_be_made_now,
    each_tenant_is_given_no_more_than_its_share_the_oldest_first,
    who_claims_for_several_tenants_at_a_time_gets_nothing_twice,
    those_of_a_lane_go_one_after_another,
    those_behind_one_that_is_made_later_are_due_with_it_and_go_at_once_when_it_is_over,
    those_for_the_collector_go_when_they_are_due_and_in_their_order,
    only_who_claimed_it_last_settles_it,
    what_is_over_can_be_replayed_and_is_forgotten_in_time,
    a_replay_keeps_its_answer_or_does_not_happen,
    what_a_target_was_not_told_is_given_up_with_a_reason,
    a_long_backlog_is_given_up_a_few_at_a_time,
    what_is_left_after_a_restore_is_held_back_by_one_and_once,
);

pub fn new(id: &str, ordering_key: Option<&str>) -> NewDelivery {
    NewDelivery {
        id: id.into(),
        kind: TargetKind::Webhook,
        target: "hook".into(),
        ordering_key: ordering_key.map(str::to_owned),
        event: "run.finished".into(),
        body: r#"{"é":"\u0000"}"#.into(),
    }
}

/// For the collector of traces.
pub fn trace(id: &str) -> NewDelivery {
    NewDelivery { kind: TargetKind::Collector, ..new(id, None) }
}

/// Commits at 100.
pub async fn post(bed: &Bed, pk: ThreadPk, deliveries: Vec<NewDelivery>) {
    let commit = Commit { deliveries, ..bed.next(pk).await };
    bed.done(commit).await;
}

/// Claims the due deliveries of the bed's tenant, for 50.
pub async fn claim_some(bed: &Bed, now: i64, most: u32) -> Vec<Delivery> {
    let share = Share { tenant: bed.tenant, most };
    bed.store.claim_deliveries(&[share], now, now + 50).await.unwrap()
}

pub async fn claim(bed: &Bed, now: i64) -> Vec<Delivery> {
    claim_some(bed, now, 10).await
}

/// The deliveries that several tenants get, in the order of their names.
async fn claim_shares(bed: &Bed, now: i64, shares: &[(TenantPk, u32)]) -> Vec<String> {
    let shares: Vec<Share> = shares.iter().map(|(tenant, most)| Share { tenant: *tenant, most: *most }).collect();
    let claimed = bed.store.claim_deliveries(&shares, now, now + 50).await.unwrap();
    let mut ids: Vec<String> = claimed.iter().map(|delivery| delivery.id.to_string()).collect();
    ids.sort();
    ids
}

pub fn ids(deliveries: &[Delivery]) -> Vec<&str> {
    deliveries.iter().map(|delivery| delivery.id.as_str()).collect()
}

pub async fn settle(bed: &Bed, id: &str, attempt: u32, settled: DeliveryOutcome) -> bool {
    let settlement = Settlement { id: id.into(), attempt, settled, said: "200 OK".to_owned() };
    bed.store.settle_deliveries(vec![settlement], 500).await.unwrap() == 1
}

async fn what_a_commit_leaves_is_stored_with_it_or_not_at_all(bed: Bed) {
    let pk = bed.thread("t").await;
    let stale = Commit { deliveries: vec![new("d0", None)], ..after(&bed.read(pk).await) };
    post(&bed, pk, vec![new("d1", None), new("d2", None)]).await;
    assert_eq!(bed.store.commit(stale).await.unwrap(), Committed::Stale);
    let told = bed.store.deliveries(bed.tenant, TargetKind::Webhook, "hook", &page(10)).await.unwrap().items;
    assert_eq!(ids(&told), ["d2", "d1"]);
    let one = &told[1];
    assert_eq!((one.tenant, one.thread, one.created_at, one.due_at), (bed.tenant, pk, 100, Some(100)));
    assert_eq!((one.status, one.attempts, one.event.as_str()), (DeliveryStatus::Pending, 0, "run.finished"));
    assert_eq!((one.body.as_str(), &one.said, one.finished_at), (r#"{"é":"\u0000"}"#, &None, None));
    let first = bed.store.deliveries(bed.tenant, TargetKind::Webhook, "hook", &page(1)).await.unwrap();
    let rest = pes::store::PageAsk { cursor: first.next_cursor, limit: 1 };
    let rest = bed.store.deliveries(bed.tenant, TargetKind::Webhook, "hook", &rest).await.unwrap();
    assert_eq!((ids(&rest.items), rest.next_cursor), (vec!["d1"], None));
    let other = bed.other_tenant().await.tenant;
    assert!(bed.store.deliveries(other, TargetKind::Webhook, "hook", &page(10)).await.unwrap().items.is_empty());
    assert!(bed.store.deliveries(bed.tenant, TargetKind::Push, "hook", &page(10)).await.unwrap().items.is_empty());
}

async fn a_delivery_is_claimed_by_one_at_a_time(bed: Bed) {
    let pk = bed.thread("t").await;
    assert_eq!(bed.store.next_single().await.unwrap(), None);
    post(&bed, pk, (0..20).map(|n| new(&format!("d{n}"), None)).collect()).await;
    assert_eq!(bed.store.next_single().await.unwrap(), Some(100));
    assert!(claim(&bed, 99).await.is_empty(), "not due yet");
    let claims = together((0..6).map(|_| {
        let bed = bed.clone();
        async move { claim_some(&bed, 100, 4).await }
    }));
    let mut claimed: Vec<String> = claims
        .await
        .iter()
        .flat_map(|found| ids(found).join(" ").split(' ').map(str::to_owned).collect::<Vec<_>>())
        .filter(|id| !id.is_empty())
        .collect();
    claimed.extend(ids(&claim(&bed, 100).await).iter().map(|id| (*id).to_owned()));
    claimed.sort();
    let count = claimed.len();
    claimed.dedup();
    assert_eq!((claimed.len(), count), (20, 20), "each once");
    assert!(claim(&bed, 149).await.is_empty(), "all are claimed");
    let again = claim(&bed, 150).await;
    assert_eq!((again.len(), again[0].attempts), (10, 2), "a claim runs out");
}

async fn tenants_are_known_that_have_something_to_be_made_now(bed: Bed) {
    let due = async |now| {
        let mut tenants = bed.store.tenants_due(now).await.unwrap();
        tenants.sort();
        tenants
    };
    assert_eq!(due(100).await, []);
    let (ready, later) = (bed.of_tenant("ready").await, bed.of_tenant("later").await);
    let (over, traced, in_line) =
        (bed.of_tenant("over").await, bed.of_tenant("traced").await, bed.of_tenant("in line").await);
    for (bed, deliveries) in [
        (&ready, vec![new("r1", None), new("r2", None)]),
        (&later, vec![new("l", None)]),
        (&over, vec![new("o", None)]),
        (&traced, vec![trace("t")]),
        (&in_line, vec![new("i1", Some("i")), new("i2", Some("i"))]),
    ] {
        post(bed, bed.thread("t").await, deliveries).await;
    }
    assert_eq!(due(99).await, []);
    assert_eq!(due(100).await, [ready.tenant, later.tenant, over.tenant, in_line.tenant]);
    for bed in [&later, &over] {
        claim(bed, 100).await;
    }
    assert_eq!(ids(&claim(&in_line, 100).await), ["i1"]);
    assert!(
        settle(&bed, "l", 1, DeliveryOutcome::Later(300)).await
            && settle(&bed, "o", 1, DeliveryOutcome::Delivered).await
    );
    assert_eq!(due(149).await, [ready.tenant], "nothing of the others can be made");
    assert_eq!(due(150).await, [ready.tenant, in_line.tenant], "a claim ran out");
    assert_eq!(due(300).await, [ready.tenant, later.tenant, in_line.tenant]);
    assert!(settle(&bed, "i1", 1, DeliveryOutcome::Delivered).await);
    assert_eq!(due(149).await, [ready.tenant, in_line.tenant], "the next of its line");
}

async fn each_tenant_is_given_no_more_than_its_share_the_oldest_first(bed: Bed) {
    let (one, two, three) = (bed.clone(), bed.of_tenant("two").await, bed.of_tenant("three").await);
    let named = |name: &str| (0..4).map(|n| new(&format!("{name}{n}"), None)).collect::<Vec<_>>();
    let of_one = [named("a"), vec![new("lane1", Some("a")), new("lane2", Some("a")), trace("trace")]].concat();
    post(&one, one.thread("t").await, of_one).await;
    for (bed, name) in [(&two, "b"), (&three, "c")] {
        post(bed, bed.thread("t").await, named(name)).await;
    }
    let (a, b) = (one.tenant, two.tenant);
    assert_eq!(claim_shares(&bed, 100, &[(a, 2), (b, 3)]).await, ["a0", "a1", "b0", "b1", "b2"]);
    assert!(
        settle(&bed, "a0", 1, DeliveryOutcome::Later(220)).await
            && settle(&bed, "a1", 1, DeliveryOutcome::Later(210)).await
    );
    assert_eq!(claim_shares(&bed, 120, &[(b, 9), (a, 1)]).await, ["a2", "b3"], "who has fewer gets what there is");
    assert_eq!(claim_shares(&bed, 120, &[(a, 9)]).await, ["a3", "lane1"], "of a lane it is the first");
    for id in ["a2", "a3", "lane1"] {
        assert!(settle(&bed, id, 1, DeliveryOutcome::Delivered).await);
    }
    assert_eq!(claim_shares(&bed, 300, &[(a, 2)]).await, ["a1", "lane2"], "they were due before");
    assert_eq!(claim_shares(&bed, 300, &[(a, 2)]).await, ["a0"]);
    assert_eq!(ids(&bed.store.claim_batch(300, 350, 9).await.unwrap()), ["trace"]);
    assert_eq!(bed.store.tenants_due(300).await.unwrap(), [two.tenant, three.tenant], "those claims ran out");
}

async fn who_claims_for_several_tenants_at_a_time_gets_nothing_twice(bed: Bed) {
    let other = bed.other_tenant().await;
    for (bed, name) in [(&bed, "a"), (&other, "b")] {
        let deliveries = (0..100).map(|n| new(&format!("{name}{n}"), None)).collect();
        post(bed, bed.thread("t").await, deliveries).await;
    }
    let (a, b) = (bed.tenant, other.tenant);
    let claims = together((0..4).map(|n| {
        let (bed, shares) = (bed.clone(), if n % 2 == 0 { [(a, 3), (b, 3)] } else { [(b, 3), (a, 3)] });
        async move {
            let mut all = Vec::new();
            loop {
                let claimed = claim_shares(&bed, 100, &shares).await;
                if claimed.is_empty() {
                    return all;
                }
                all.extend(claimed);
            }
        }
    }));
    let mut claimed = claims.await.concat();
    claimed.extend(claim_shares(&bed, 100, &[(a, 200), (b, 200)]).await);
    claimed.sort();
    let count = claimed.len();
    claimed.dedup();
    assert_eq!((claimed.len(), count), (200, 200), "each once");
}

async fn those_of_a_lane_go_one_after_another(bed: Bed) {
    let pk = bed.thread("t").await;
    post(&bed, pk, vec![new("a1", Some("a")), new("b1", Some("b")), new("a2", Some("a")), new("free", None)]).await;
    assert_eq!(ids(&claim(&bed, 100).await), ["a1", "b1", "free"]);
    assert!(settle(&bed, "a1", 1, DeliveryOutcome::Later(300)).await);
    assert!(claim(&bed, 120).await.is_empty(), "the first of its lane waits");
    assert!(
        settle(&bed, "b1", 1, DeliveryOutcome::Delivered).await
            && settle(&bed, "free", 1, DeliveryOutcome::Delivered).await
    );
    assert_eq!(bed.store.next_single().await.unwrap(), Some(300), "who waits for another is not next");
    post(&bed, pk, vec![new("b2", Some("b"))]).await;
    assert_eq!(bed.store.next_single().await.unwrap(), Some(100), "nobody of its own lane is before it");
    assert!(!ids(&claim(&bed, 300).await).contains(&"a2"));
    assert!(settle(&bed, "a1", 2, DeliveryOutcome::Dead).await);
    assert_eq!(ids(&claim(&bed, 301).await), ["a2"]);
}

async fn those_behind_one_that_is_made_later_are_due_with_it_and_go_at_once_when_it_is_over(bed: Bed) {
    let pk = bed.thread("t").await;
    post(&bed, pk, ["a1", "b1", "a2", "b2", "a3"].map(|id| new(id, Some(&id[..1]))).to_vec()).await;
    let dues = async || {
        let told = bed.store.deliveries(bed.tenant, TargetKind::Webhook, "hook", &page(10)).await.unwrap().items;
        told.into_iter().rev().map(|one| one.due_at).collect::<Vec<_>>()
    };
    assert_eq!(ids(&claim(&bed, 100).await), ["a1", "b1"]);
    assert!(!settle(&bed, "a1", 7, DeliveryOutcome::Later(400)).await, "not its attempt");
    assert!(settle(&bed, "a1", 1, DeliveryOutcome::Later(300)).await);
    assert_eq!(dues().await, [300, 150, 300, 100, 300].map(Some));
    post(&bed, pk, vec![new("a4", Some("a"))]).await;
    assert!(settle(&bed, "b1", 1, DeliveryOutcome::Dead).await);
    assert_eq!(ids(&claim(&bed, 200).await), ["b2"]);
    assert!(settle(&bed, "b2", 1, DeliveryOutcome::Delivered).await);
    assert_eq!(ids(&claim(&bed, 300).await), ["a1"]);
    assert!(settle(&bed, "a1", 2, DeliveryOutcome::Delivered).await);
    assert_eq!(ids(&claim(&bed, 300).await), ["a2"], "at once");
    assert!(settle(&bed, "a2", 1, DeliveryOutcome::Later(500)).await);
    assert_eq!(dues().await, [None, None, Some(500), None, Some(500), Some(500)]);
    assert_eq!(bed.store.next_single().await.unwrap(), Some(500));
    assert_eq!(ids(&claim(&bed, 500).await), ["a2"]);
    assert!(settle(&bed, "a2", 2, DeliveryOutcome::Dead).await);
    assert_eq!(ids(&claim(&bed, 500).await), ["a3"]);
    assert!(settle(&bed, "a3", 1, DeliveryOutcome::Delivered).await);
    assert_eq!(ids(&claim(&bed, 500).await), ["a4"]);
}

async fn those_for_the_collector_go_when_they_are_due_and_in_their_order(bed: Bed) {
    let in_line = |id: &str| NewDelivery { ordering_key: Some("run".into()), ..trace(id) };
    post(&bed, bed.thread("t").await, vec![new("hook", None), trace("free"), in_line("first"), in_line("second")])
        .await;
    let claim = async |now| bed.store.claim_batch(now, now + 50, 9).await.unwrap();
    assert!(claim(99).await.is_empty(), "not due yet");
    assert_eq!(ids(&claim(100).await), ["free", "first"]);
    assert!(settle(&bed, "free", 1, DeliveryOutcome::Later(300)).await);
    assert!(settle(&bed, "first", 1, DeliveryOutcome::Delivered).await);
    assert_eq!(bed.store.next_batched().await.unwrap(), Some(100));
    assert_eq!(ids(&claim(120).await), ["second"]);
    assert_eq!(bed.store.next_batched().await.unwrap(), Some(170));
}

async fn only_who_claimed_it_last_settles_it(bed: Bed) {
    let pk = bed.thread("t").await;
    post(&bed, pk, vec![new("d", None)]).await;
    claim(&bed, 100).await;
    claim(&bed, 150).await;
    assert!(!settle(&bed, "d", 1, DeliveryOutcome::Delivered).await, "it was claimed again");
    assert!(settle(&bed, "d", 2, DeliveryOutcome::Delivered).await);
    assert!(!settle(&bed, "d", 2, DeliveryOutcome::Dead).await, "it is over");
    let told = bed.store.deliveries(bed.tenant, TargetKind::Webhook, "hook", &page(10)).await.unwrap().items;
    let one = &told[0];
    assert_eq!((one.status, one.due_at, one.finished_at), (DeliveryStatus::Delivered, None, Some(500)));
    assert_eq!(one.said.as_deref(), Some("200 OK"));
}

async fn what_is_over_can_be_replayed_and_is_forgotten_in_time(bed: Bed) {
    let pk = bed.thread("t").await;
    post(&bed, pk, vec![new("d", None), new("open", None)]).await;
    let id = DeliveryId::from("d");
    let line = || bed.audit_line(ThreadPk::NONE, "ann");
    let replay = async |tenant, now| bed.store.replay_delivery(tenant, &id, now, line(), None).await.unwrap();
    let lines = async || bed.store.audit_of_tenant(bed.tenant, &page(10)).await.unwrap().items;
    assert_eq!(replay(bed.tenant, 200).await, Some(false), "it is not over");
    claim(&bed, 100).await;
    settle(&bed, "d", 1, DeliveryOutcome::Dead).await;
    assert_eq!(replay(bed.other_tenant().await.tenant, 200).await, None);
    assert!(lines().await.is_empty(), "nothing was replayed");
    assert_eq!(replay(bed.tenant, 600).await, Some(true));
    assert_eq!(lines().await, [line()]);
    let again = claim_some(&bed, 600, 1).await;
    let again = again.iter().chain(&claim(&bed, 600).await).find(|one| one.id == id).unwrap().clone();
    assert_eq!((again.attempts, again.finished_at), (1, None));
    settle(&bed, "d", 1, DeliveryOutcome::Delivered).await;
    assert_eq!(bed.store.forget_deliveries(500, 9).await.unwrap(), 0);
    assert_eq!(bed.store.forget_deliveries(501, 9).await.unwrap(), 1);
    let left = bed.store.deliveries(bed.tenant, TargetKind::Webhook, "hook", &page(10)).await.unwrap().items;
    assert_eq!(ids(&left), ["open"]);
}

async fn a_replay_keeps_its_answer_or_does_not_happen(bed: Bed) {
    let pk = bed.thread("t").await;
    post(&bed, pk, vec![new("d", None)]).await;
    let id = DeliveryId::from("d");
    let line = || bed.audit_line(ThreadPk::NONE, "ann");
    let replay = async |key| bed.store.replay_delivery(bed.tenant, &id, 200, line(), Some(bed.key(key))).await.unwrap();
    let is_kept = async |key: &str| bed.store.idempotency(bed.tenant, "POST /threads", key).await.unwrap().is_some();
    assert_eq!((replay("k").await, is_kept("k").await), (Some(false), false), "it is not over");
    claim(&bed, 100).await;
    settle(&bed, "d", 1, DeliveryOutcome::Dead).await;
    assert_eq!((replay("k").await, is_kept("k").await), (Some(true), true));
    claim(&bed, 300).await;
    settle(&bed, "d", 1, DeliveryOutcome::Dead).await;
    assert_eq!(replay("k").await, Some(false), "the key is taken");
    assert_eq!(bed.store.audit_of_tenant(bed.tenant, &page(10)).await.unwrap().items, [line()], "once");
    assert_eq!(bed.store.next_single().await.unwrap(), None);
}

async fn abandon(bed: &Bed, target: &str, behind: i64) -> Abandoned {
    let abandonment = Abandonment { tenant: bed.tenant, kind: TargetKind::Webhook, target, why: "gone", now: 700 };
    bed.store.abandon_deliveries(&abandonment, behind).await.unwrap()
}

async fn what_a_target_was_not_told_is_given_up_with_a_reason(bed: Bed) {
    let pk = bed.thread("t").await;
    post(&bed, pk, vec![new("told", None), new("open", None)]).await;
    let other = bed.other_tenant().await;
    post(&other, other.thread("t").await, vec![new("of another", None)]).await;
    claim(&bed, 100).await;
    settle(&bed, "told", 1, DeliveryOutcome::Delivered).await;
    for (target, count) in [("another", 0), ("hook", 1), ("hook", 0)] {
        assert_eq!(abandon(&bed, target, 0).await, Abandoned { count, next: None });
    }
    let told = bed.store.deliveries(bed.tenant, TargetKind::Webhook, "hook", &page(10)).await.unwrap().items;
    let open = told.iter().find(|one| one.id == DeliveryId::from("open")).unwrap();
    assert_eq!((open.status, open.due_at, open.finished_at), (DeliveryStatus::Dead, None, Some(700)));
    assert_eq!(open.said.as_deref(), Some("gone"));
    assert!(!settle(&bed, "open", 1, DeliveryOutcome::Delivered).await, "an attempt under way comes too late");
    assert_eq!(ids(&claim(&other, 100).await), ["of another"]);
}

/// A backlog is never ended in one transaction, and each step begins where the last one ended.
async fn a_long_backlog_is_given_up_a_few_at_a_time(bed: Bed) {
    let pk = bed.thread("t").await;
    post(&bed, pk, (0..1_100).map(|n| new(&format!("d{n}"), None)).collect()).await;
    claim_some(&bed, 100, 50).await;
    settle(&bed, "d7", 1, DeliveryOutcome::Delivered).await;
    let first = abandon(&bed, "hook", 0).await;
    let second = abandon(&bed, "hook", first.next.unwrap()).await;
    let third = abandon(&bed, "hook", second.next.unwrap()).await;
    assert_eq!([first.count, second.count, third.count], [500, 500, 99]);
    assert_eq!(third.next, None);
    assert_eq!(bed.store.next_single().await.unwrap(), None);
    let told = bed.store.deliveries(bed.tenant, TargetKind::Webhook, "hook", &page(1_200)).await.unwrap().items;
    let delivered = told.iter().filter(|one| one.status == DeliveryStatus::Delivered);
    assert_eq!(delivered.map(|one| one.id.as_str()).collect::<Vec<_>>(), ["d7"]);
}

async fn what_is_left_after_a_restore_is_held_back_by_one_and_once(bed: Bed) {
    let pk = bed.thread("t").await;
    post(&bed, pk, vec![new("before", None)]).await;
    assert_eq!(bed.store.hold_restored(hold_back()).await.unwrap(), None, "it was not restored");
    bed.store.mark_restored(50).await.unwrap();
    // The start tells of what it holds back.
    bed.done(Commit { now: 101, deliveries: vec![new("asked", None)], ..bed.next(pk).await }).await;
    let held = together((0..4).map(|_| {
        let bed = bed.clone();
        async move { bed.store.hold_restored(hold_back()).await.unwrap() }
    }));
    let held: Vec<HeldCounts> = held.await.into_iter().flatten().collect();
    assert_eq!(held, [HeldCounts { deliveries: 1, schedules: 0 }]);
    assert_eq!(bed.store.restored().await.unwrap(), None);
    assert_eq!(bed.store.audit_of_tenant(bed.tenant, &page(10)).await.unwrap().items.len(), 1);
    let told = bed.store.deliveries(bed.tenant, TargetKind::Webhook, "hook", &page(10)).await.unwrap().items;
    assert_eq!(ids(&told), ["asked", "before"]);
    assert_eq!((told[0].status, told[0].said.as_deref()), (DeliveryStatus::Pending, None));
    assert_eq!((told[1].status, told[1].said.as_deref()), (DeliveryStatus::Dead, Some("not made")));
    post(&bed, pk, vec![new("after", None)]).await;
    assert_eq!(bed.store.hold_restored(hold_back()).await.unwrap(), None);
    assert_eq!(ids(&claim(&bed, 100).await), ["after"]);
    assert_eq!(ids(&claim(&bed, 101).await), ["asked"]);
}
