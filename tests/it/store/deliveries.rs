//! The outbox.

use pes::domain::ids::{DeliveryId, ThreadPk};
use pes::store::Erasure;
use pes::store::outbox::{Delivery, DeliveryStatus, NewDelivery, Settled, Settlement, TargetKind};
use pes::store::{Commit, Committed};

use super::bed::{Bed, after, page, together};
use super::on_every_store;

on_every_store!(
    what_a_commit_leaves_is_stored_with_it_or_not_at_all,
    a_delivery_is_claimed_by_one_at_a_time,
    those_of_a_lane_go_one_after_another,
    only_who_claimed_it_last_settles_it,
    what_is_over_can_be_replayed_and_is_forgotten_in_time,
    a_replay_keeps_its_answer_or_does_not_happen,
    what_a_target_was_not_told_is_given_up_with_a_reason,
    a_thread_takes_its_deliveries_with_it,
    what_an_erased_thread_leaves_is_stored_with_its_end_or_not_at_all,
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

/// Commits at 100.
pub async fn post(bed: &Bed, pk: ThreadPk, deliveries: Vec<NewDelivery>) {
    let commit = Commit { deliveries, ..bed.next(pk).await };
    bed.done(commit).await;
}

async fn claim(bed: &Bed, now: i64) -> Vec<Delivery> {
    bed.store.claim_deliveries(TargetKind::ALL, now, now + 50, 10).await.unwrap()
}

fn ids(deliveries: &[Delivery]) -> Vec<&str> {
    deliveries.iter().map(|delivery| delivery.id.as_str()).collect()
}

async fn settle(bed: &Bed, id: &str, attempt: u32, settled: Settled) -> bool {
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
    assert_eq!(bed.store.next_delivery(TargetKind::ALL).await.unwrap(), None);
    post(&bed, pk, (0..20).map(|n| new(&format!("d{n}"), None)).collect()).await;
    assert_eq!(bed.store.next_delivery(TargetKind::ALL).await.unwrap(), Some(100));
    assert!(claim(&bed, 99).await.is_empty(), "not due yet");
    let claims = together((0..6).map(|_| {
        let bed = bed.clone();
        async move { bed.store.claim_deliveries(TargetKind::ALL, 100, 150, 4).await.unwrap() }
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

async fn those_of_a_lane_go_one_after_another(bed: Bed) {
    let pk = bed.thread("t").await;
    post(&bed, pk, vec![new("a1", Some("a")), new("b1", Some("b")), new("a2", Some("a")), new("free", None)]).await;
    assert_eq!(ids(&claim(&bed, 100).await), ["a1", "b1", "free"]);
    assert!(settle(&bed, "a1", 1, Settled::Later(300)).await);
    assert!(claim(&bed, 120).await.is_empty(), "the first of its lane waits");
    assert!(settle(&bed, "b1", 1, Settled::Delivered).await && settle(&bed, "free", 1, Settled::Delivered).await);
    assert_eq!(bed.store.next_delivery(TargetKind::ALL).await.unwrap(), Some(300), "who waits for another is not next");
    assert!(!ids(&claim(&bed, 300).await).contains(&"a2"));
    assert!(settle(&bed, "a1", 2, Settled::Dead).await);
    assert_eq!(ids(&claim(&bed, 301).await), ["a2"]);
}

async fn only_who_claimed_it_last_settles_it(bed: Bed) {
    let pk = bed.thread("t").await;
    post(&bed, pk, vec![new("d", None)]).await;
    claim(&bed, 100).await;
    claim(&bed, 150).await;
    assert!(!settle(&bed, "d", 1, Settled::Delivered).await, "it was claimed again");
    assert!(settle(&bed, "d", 2, Settled::Delivered).await);
    assert!(!settle(&bed, "d", 2, Settled::Dead).await, "it is over");
    let told = bed.store.deliveries(bed.tenant, TargetKind::Webhook, "hook", &page(10)).await.unwrap().items;
    let one = &told[0];
    assert_eq!((one.status, one.due_at, one.finished_at), (DeliveryStatus::Delivered, None, Some(500)));
    assert_eq!(one.said.as_deref(), Some("200 OK"));
}

async fn what_is_over_can_be_replayed_and_is_forgotten_in_time(bed: Bed) {
    let pk = bed.thread("t").await;
    post(&bed, pk, vec![new("d", None), new("open", None)]).await;
    let id = DeliveryId::from("d");
    let replay = async |tenant, now| bed.store.replay_delivery(tenant, &id, now, None).await.unwrap();
    assert_eq!(replay(bed.tenant, 200).await, Some(false), "it is not over");
    claim(&bed, 100).await;
    settle(&bed, "d", 1, Settled::Dead).await;
    assert_eq!(replay(bed.other_tenant().await.tenant, 200).await, None);
    assert_eq!(replay(bed.tenant, 600).await, Some(true));
    let again = bed.store.claim_deliveries(TargetKind::ALL, 600, 650, 1).await.unwrap();
    let again = again.iter().chain(&claim(&bed, 600).await).find(|one| one.id == id).unwrap().clone();
    assert_eq!((again.attempts, again.finished_at), (1, None));
    settle(&bed, "d", 1, Settled::Delivered).await;
    assert_eq!(bed.store.forget_deliveries(500, 9).await.unwrap(), 0);
    assert_eq!(bed.store.forget_deliveries(501, 9).await.unwrap(), 1);
    let left = bed.store.deliveries(bed.tenant, TargetKind::Webhook, "hook", &page(10)).await.unwrap().items;
    assert_eq!(ids(&left), ["open"]);
}

async fn a_replay_keeps_its_answer_or_does_not_happen(bed: Bed) {
    let pk = bed.thread("t").await;
    post(&bed, pk, vec![new("d", None)]).await;
    let id = DeliveryId::from("d");
    let replay = async |key| bed.store.replay_delivery(bed.tenant, &id, 200, Some(bed.key(key))).await.unwrap();
    let is_kept = async |key: &str| bed.store.idempotency(bed.tenant, "POST /threads", key).await.unwrap().is_some();
    assert_eq!((replay("k").await, is_kept("k").await), (Some(false), false), "it is not over");
    claim(&bed, 100).await;
    settle(&bed, "d", 1, Settled::Dead).await;
    assert_eq!((replay("k").await, is_kept("k").await), (Some(true), true));
    claim(&bed, 300).await;
    settle(&bed, "d", 1, Settled::Dead).await;
    assert_eq!(replay("k").await, Some(false), "the key is taken");
    assert_eq!(bed.store.next_delivery(TargetKind::ALL).await.unwrap(), None);
}

async fn what_a_target_was_not_told_is_given_up_with_a_reason(bed: Bed) {
    let pk = bed.thread("t").await;
    post(&bed, pk, vec![new("told", None), new("open", None)]).await;
    claim(&bed, 100).await;
    settle(&bed, "told", 1, Settled::Delivered).await;
    let abandon = async |target| {
        bed.store.abandon_deliveries(bed.tenant, TargetKind::Webhook, target, "gone", 700).await.unwrap()
    };
    assert_eq!((abandon("another").await, abandon("hook").await, abandon("hook").await), (0, 1, 0));
    let told = bed.store.deliveries(bed.tenant, TargetKind::Webhook, "hook", &page(10)).await.unwrap().items;
    let open = told.iter().find(|one| one.id == DeliveryId::from("open")).unwrap();
    assert_eq!((open.status, open.due_at, open.finished_at), (DeliveryStatus::Dead, None, Some(700)));
    assert_eq!(open.said.as_deref(), Some("gone"));
    assert!(!settle(&bed, "open", 1, Settled::Delivered).await, "an attempt under way comes too late");
}

async fn a_thread_takes_its_deliveries_with_it(bed: Bed) {
    let pk = bed.thread("t").await;
    post(&bed, pk, vec![new("d", None)]).await;
    assert!(bed.erase(pk).await);
    assert!(claim(&bed, 100).await.is_empty());
}

async fn what_an_erased_thread_leaves_is_stored_with_its_end_or_not_at_all(bed: Bed) {
    let pk = bed.thread("t").await;
    post(&bed, pk, vec![new("before", None)]).await;
    let now = bed.read(pk).await.fence.version;
    let before = bed.everything(pk).await;
    let erase = async |version| {
        let deliveries = vec![NewDelivery { kind: TargetKind::Agent, ..new("after", None) }];
        bed.store.delete_thread(Erasure { deliveries, ..bed.erasure(pk, version) }).await.unwrap()
    };
    assert!(!erase(now - 1).await, "it has moved since");
    assert_eq!(bed.everything(pk).await, before);
    assert_eq!(bed.store.next_delivery(TargetKind::ALL).await.unwrap(), Some(100));
    assert!(erase(now).await);
    assert!(!erase(now).await, "there is nothing any more");
    let left = claim(&bed, 100).await;
    assert_eq!(ids(&left), ["after"]);
    let one = &left[0];
    assert_eq!((one.tenant, one.thread, one.kind, one.created_at), (bed.tenant, pk, TargetKind::Agent, 100));
    assert_eq!((one.target.as_str(), one.body.as_str()), ("hook", r#"{"é":"\u0000"}"#));
    assert!(settle(&bed, "after", 1, Settled::Delivered).await);
}
