//! If a delivery of a commit cannot be stored, nothing of the commit is stored.

use pes::domain::observation::ObservationType;
use pes::engine::step::{Keep, RowKind};
use pes::store::outbox::TargetKind;
use pes::store::{Commit, Error};

use super::bed::{Bed, page, record, row};
use super::{deliveries, on_every_store};

on_every_store!(sqlite: a_delivery_that_cannot_be_stored_takes_its_commit_with_it);
on_every_store!(postgres: a_delivery_that_cannot_be_stored_takes_its_commit_with_it);

async fn a_delivery_that_cannot_be_stored_takes_its_commit_with_it(bed: Bed) {
    let pk = bed.thread("t").await;
    deliveries::post(&bed, pk, vec![deliveries::new("known", None)]).await;
    let before = bed.everything(pk).await;
    let told = ["fresh", "known"].map(|id| deliveries::new(id, None)).to_vec();
    let rows = vec![row(RowKind::Turn, "r", 7, Keep::Always)];
    let records = vec![record("o", ObservationType::Intent, "r")];
    let answer = bed.store.commit(Commit { rows, records, deliveries: told, ..bed.next(pk).await }).await;
    assert!(matches!(answer, Err(Error::Refused(_))), "{answer:?}");
    assert_eq!(bed.everything(pk).await, before, "what it tells of did not happen");
    let stored = bed.store.deliveries(bed.tenant, TargetKind::Webhook, "hook", &page(10)).await.unwrap().items;
    assert_eq!(stored.len(), 1, "{stored:?}");
}
