//! Rows with sealed texts are found page by page, and replaced only if they are unchanged.

use pes::engine::step::{Keep, Row, RowKind};
use pes::store::sealed::{SealedKind, SealedRow};
use pes::store::{Commit, IdempotencyRow};

use super::bed::Bed;
use super::on_every_store;

on_every_store!(receivers_and_answers_are_found_in_pages_and_replaced_as_they_were_read, a_tenant_has_its_name);

fn answer(bed: &Bed, key: &str, body: &str) -> IdempotencyRow {
    IdempotencyRow {
        tenant: bed.tenant,
        scope: "POST /webhooks".to_owned(),
        key: key.to_owned(),
        fingerprint: "f".to_owned(),
        status: 201,
        body: body.to_owned(),
        location: None,
        created_at: 1,
    }
}

async fn all(bed: &Bed, kind: SealedKind) -> Vec<SealedRow> {
    let mut found: Vec<SealedRow> = Vec::new();
    loop {
        let page = bed.store.sealed_rows(kind, found.last(), 2).await.unwrap();
        assert!(page.len() <= 2);
        if page.is_empty() {
            return found;
        }
        found.extend(page);
    }
}

async fn receivers_and_answers_are_found_in_pages_and_replaced_as_they_were_read(bed: Bed) {
    for thread in ["one", "two"] {
        let pk = bed.thread(thread).await;
        let row =
            |kind, id: &str| Row { kind, id: id.to_owned(), ord: 1, keep: Keep::Never, body: format!("\"{id}\"") };
        let rows = vec![row(RowKind::Push, "r1/a"), row(RowKind::Push, "r1/b"), row(RowKind::Item, "i")];
        let next = bed.next(pk).await;
        bed.done(Commit { rows, ..next }).await;
    }
    let receivers = all(&bed, SealedKind::Receiver).await;
    let ids: Vec<&str> = receivers.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(ids, ["r1/a", "r1/b", "r1/a", "r1/b"], "of both threads, in their order");
    assert_eq!((receivers[0].tenant, receivers[0].body.as_str()), (bed.tenant, "\"r1/a\""));

    for (at, (key, body)) in
        [("k1\0", "v1.aa.x"), ("k2", "{}"), ("k3", "v1.aa.y"), ("k4", "v1.aa.z")].iter().enumerate()
    {
        let pk = bed.thread(&format!("k{at}")).await;
        let next = bed.next(pk).await;
        bed.done(Commit { idempotency: Some(answer(&bed, key, body)), ..next }).await;
    }
    let answers = all(&bed, SealedKind::Response).await;
    let ids: Vec<&str> = answers.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(ids, ["k1\0", "k3", "k4"], "those that are sealed");

    for row in [&receivers[1], &answers[0]] {
        assert!(bed.store.replace_sealed(row, "v1.bb.new").await.unwrap());
        assert!(!bed.store.replace_sealed(row, "v1.bb.newer").await.unwrap(), "it is not as it was read");
    }
    let row = bed.store.row(receivers[1].thread, RowKind::Push, "r1/b").await.unwrap().unwrap();
    assert_eq!((row.body.as_str(), row.keep), ("v1.bb.new", Keep::Never));
    let kept = bed.store.idempotency(bed.tenant, "POST /webhooks", "k1\0").await.unwrap().unwrap();
    assert_eq!((kept.body.as_str(), kept.status), ("v1.bb.new", 201));
    let gone = SealedRow { id: "gone".to_owned(), ..receivers[0].clone() };
    assert!(!bed.store.replace_sealed(&gone, "x").await.unwrap());
}

async fn a_tenant_has_its_name(bed: Bed) {
    assert_eq!(bed.store.tenant_name(bed.tenant).await.unwrap().as_deref(), Some("default"));
    let nobody = pes::domain::ids::TenantPk(bed.tenant.0 + 1_000);
    assert_eq!(bed.store.tenant_name(nobody).await.unwrap(), None);
}
