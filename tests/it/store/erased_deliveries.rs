//! The deliveries that are left when their thread is erased.

use pes::store::Erasure;
use pes::store::outbox::{DeliveryOutcome, NewDelivery, TargetKind};

use super::bed::{Bed, page};
use super::deliveries::{claim, ids, new, post, settle, trace};

super::on_every_store!(
    a_thread_takes_its_deliveries_with_it_but_what_webhooks_and_the_collector_wait_for,
    what_an_erased_thread_leaves_is_stored_with_its_end_or_not_at_all,
);

/// What is over, what its task's receivers would get, and a question that nobody can answer any more go with it.
async fn a_thread_takes_its_deliveries_with_it_but_what_webhooks_and_the_collector_wait_for(bed: Bed) {
    let pk = bed.thread("t").await;
    post(&bed, pk, vec![new("over", None)]).await;
    claim(&bed, 100).await;
    assert!(settle(&bed, "over", 1, DeliveryOutcome::Delivered).await);
    let push = NewDelivery { kind: TargetKind::Push, ..new("push", None) };
    let of_another = NewDelivery { id: "of another".into(), ..push.clone() };
    post(&bed, bed.thread("another").await, vec![of_another]).await;
    let question = NewDelivery { event: "suspension.requested".into(), ..new("question", None) };
    post(&bed, pk, vec![new("end", None), push, question, trace("spans")]).await;
    assert!(bed.erase(pk).await);
    let told = bed.store.deliveries(bed.tenant, TargetKind::Webhook, "hook", &page(10)).await.unwrap().items;
    assert_eq!(ids(&told), ["end"]);
    assert_eq!(ids(&claim(&bed, 100).await), ["of another", "end"]);
    assert_eq!(ids(&bed.store.claim_batch(100, 150, 10).await.unwrap()), ["spans"]);
    assert!(settle(&bed, "end", 1, DeliveryOutcome::Delivered).await);
}

async fn what_an_erased_thread_leaves_is_stored_with_its_end_or_not_at_all(bed: Bed) {
    let pk = bed.thread("t").await;
    post(&bed, pk, vec![NewDelivery { kind: TargetKind::Push, ..new("before", None) }]).await;
    let now = bed.read(pk).await.fence.version;
    let before = bed.everything(pk).await;
    let erase = async |version| {
        let deliveries = vec![NewDelivery { kind: TargetKind::Agent, ..new("after", None) }];
        bed.store.delete_thread(Erasure { deliveries, ..bed.erasure(pk, version) }).await.unwrap()
    };
    assert!(!erase(now - 1).await, "it has moved since");
    assert_eq!(bed.everything(pk).await, before);
    assert_eq!(bed.store.next_single().await.unwrap(), Some(100));
    assert!(erase(now).await);
    assert!(!erase(now).await, "there is nothing any more");
    let left = claim(&bed, 100).await;
    assert_eq!(ids(&left), ["after"]);
    let one = &left[0];
    assert_eq!((one.tenant, one.thread, one.kind, one.created_at), (bed.tenant, pk, TargetKind::Agent, 100));
    assert_eq!((one.target.as_str(), one.body.as_str()), ("hook", r#"{"é":"\u0000"}"#));
    assert!(settle(&bed, "after", 1, DeliveryOutcome::Delivered).await);
}
