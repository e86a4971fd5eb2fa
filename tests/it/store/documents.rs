//! Documents of tenants: versions, deletions, and who is notified of changes.

use pes::domain::ids::ThreadPk;
use pes::store::documents::{Change, Document, DocumentCache, DocumentChanges, DocumentKind, Expected};
use pes::store::{AuditRow, PageAsk};
use serde_json::{Value, json};

use super::bed::{Bed, page};
use crate::support::store::{Mood, Moody};
use crate::support::together;

super::on_every_store!(
    a_document_is_written_if_what_is_stored_was_expected,
    a_version_is_never_used_twice,
    of_many_who_expect_nothing_one_writes,
    of_many_at_once_no_more_are_written_than_may_be_there,
    changes_are_heard_in_their_order,
    each_write_leaves_one_line_of_audit,
    tenants_and_kinds_share_no_documents,
    another_replica_sees_what_was_written,
    an_answer_is_kept_with_the_document_or_neither_is,
    what_was_written_is_no_failure_if_it_cannot_be_read_again,
    deletions_are_forgotten_and_who_missed_them_reads_all,
    a_document_that_is_there_again_is_not_forgotten,
);

fn document(bed: &Bed, id: &str, body: Option<Value>) -> Document {
    Document { tenant: bed.tenant, kind: DocumentKind::Policy, id: id.into(), version: 0, updated_at: 40, body }
}

fn line(bed: &Bed, actor: &str) -> AuditRow {
    AuditRow { action: "put document".into(), ..bed.audit_line(ThreadPk::NONE, actor) }
}

async fn put(bed: &Bed, id: &str, expected: Expected) -> Option<i64> {
    let new = document(bed, id, Some(json!({ "of": id })));
    bed.store.write_document(new, expected, line(bed, "ann"), None).await.unwrap()
}

async fn delete(bed: &Bed, id: &str, expected: Expected) -> Option<i64> {
    bed.store.write_document(document(bed, id, None), expected, line(bed, "ann"), None).await.unwrap()
}

/// The documents that changed since a reader's revision, and whether these are all.
async fn since(bed: &Bed, version: i64) -> (Vec<String>, bool) {
    let DocumentChanges { documents, is_whole, .. } = bed.store.documents_since(version).await.unwrap();
    (documents.into_iter().map(|known| known.id).collect(), is_whole)
}

async fn read(bed: &Bed, id: &str) -> Option<Document> {
    bed.store.document(bed.tenant, DocumentKind::Policy, id).await.unwrap()
}

async fn a_document_is_written_if_what_is_stored_was_expected(bed: Bed) {
    assert_eq!(read(&bed, "a").await, None);
    assert_eq!(put(&bed, "a", Expected::Version(1)).await, None);
    let first = put(&bed, "a", Expected::Absent).await.unwrap();
    assert_eq!(put(&bed, "a", Expected::Absent).await, None);
    let stored = read(&bed, "a").await.unwrap();
    assert_eq!(stored, Document { version: first, ..document(&bed, "a", Some(json!({"of": "a"}))) });
    let second = put(&bed, "a", Expected::Version(first)).await.unwrap();
    assert_eq!(put(&bed, "a", Expected::Version(first)).await, None);
    assert_eq!(delete(&bed, "a", Expected::Version(first)).await, None);
    let third = put(&bed, "a", Expected::Any).await.unwrap();
    assert!(first < second && second < third);
    assert!(delete(&bed, "a", Expected::Version(third)).await.is_some());
    assert_eq!(read(&bed, "a").await, None);
    assert_eq!(delete(&bed, "a", Expected::Any).await, None, "there is nothing to delete");
    let odd = document(&bed, "\u{0}\u{1}é", Some(json!({"text": "\u{0}"})));
    let version = bed.store.write_document(odd.clone(), Expected::Any, line(&bed, "ann"), None).await.unwrap().unwrap();
    assert_eq!(read(&bed, "\u{0}\u{1}é").await, Some(Document { version, ..odd }));
}

async fn a_version_is_never_used_twice(bed: Bed) {
    let first = put(&bed, "a", Expected::Absent).await.unwrap();
    delete(&bed, "a", Expected::Any).await.unwrap();
    let again = put(&bed, "a", Expected::Absent).await.unwrap();
    assert!(again > first);
    assert_eq!(put(&bed, "a", Expected::Version(first)).await, None, "it was read before it was deleted");
}

async fn of_many_who_expect_nothing_one_writes(bed: Bed) {
    let writes = (0..20).map(|_| {
        let bed = bed.clone();
        async move { put(&bed, "a", Expected::Absent).await }
    });
    let written = together(writes).await;
    assert_eq!(written.iter().flatten().count(), 1);
}

async fn of_many_at_once_no_more_are_written_than_may_be_there(bed: Bed) {
    put(&bed, "deleted", Expected::Any).await.unwrap();
    delete(&bed, "deleted", Expected::Any).await.unwrap();
    let of_another_kind = Document { kind: DocumentKind::Webhook, ..document(&bed, "hook", Some(json!({}))) };
    bed.store
        .write_document(of_another_kind, Expected::AbsentBelow(1), line(&bed, "ann"), None)
        .await
        .unwrap()
        .unwrap();
    let writes = (0..20).map(|n| {
        let bed = bed.clone();
        async move { put(&bed, &format!("d{n}"), Expected::AbsentBelow(3)).await }
    });
    let written = together(writes).await;
    assert_eq!(written.iter().flatten().count(), 3);
    let other = bed.other_tenant().await;
    assert!(put(&other, "a", Expected::AbsentBelow(1)).await.is_some());
    assert_eq!(put(&other, "a", Expected::AbsentBelow(9)).await, None, "there is an `a`");
}

async fn changes_are_heard_in_their_order(bed: Bed) {
    assert_eq!(bed.store.documents_since(0).await.unwrap(), DocumentChanges::default());
    let a = put(&bed, "a", Expected::Any).await.unwrap();
    put(&bed, "b", Expected::Any).await.unwrap();
    put(&bed, "a", Expected::Absent).await;
    delete(&bed, "b", Expected::Any).await.unwrap();
    let told = bed.store.documents_since(0).await.unwrap().documents;
    let told: Vec<_> = told.iter().map(|known| (known.id.as_str(), known.body.is_some())).collect();
    assert_eq!(told, [("a", true), ("b", false)]);
    assert_eq!(since(&bed, a).await, (vec!["b".to_owned()], false));
}

async fn each_write_leaves_one_line_of_audit(bed: Bed) {
    put(&bed, "a", Expected::Absent).await;
    put(&bed, "a", Expected::Absent).await;
    bed.store.write_document(document(&bed, "a", None), Expected::Any, line(&bed, "bob"), None).await.unwrap();
    let lines = bed.store.audit_of_tenant(bed.tenant, &page(10)).await.unwrap();
    assert_eq!(lines.items, [line(&bed, "bob"), line(&bed, "ann")]);
    let first = bed.store.audit_of_tenant(bed.tenant, &page(1)).await.unwrap();
    let rest = PageAsk { cursor: first.next_cursor, limit: 1 };
    assert_eq!(bed.store.audit_of_tenant(bed.tenant, &rest).await.unwrap().items, [line(&bed, "ann")]);
    let other = bed.other_tenant().await;
    assert_eq!(bed.store.audit_of_tenant(other.tenant, &page(10)).await.unwrap().items, []);
}

async fn tenants_and_kinds_share_no_documents(bed: Bed) {
    let other = bed.other_tenant().await;
    put(&bed, "a", Expected::Absent).await.unwrap();
    assert_eq!(read(&other, "a").await, None);
    assert_eq!(bed.store.document(bed.tenant, DocumentKind::Agent, "a").await.unwrap(), None);
    assert!(put(&other, "a", Expected::Absent).await.is_some());
    assert_eq!(delete(&other, "b", Expected::Any).await, None);
}

async fn another_replica_sees_what_was_written(bed: Bed) {
    let here = DocumentCache::open(bed.store.clone()).await.unwrap();
    let there = DocumentCache::open(bed.store.clone()).await.unwrap();
    let change = |id: &str, body: Option<Value>| Change {
        tenant: bed.tenant,
        kind: DocumentKind::Webhook,
        id: id.into(),
        body,
        by: "ann".into(),
        former: None,
        by_tenant: None,
        why: None,
        now: 50,
    };
    let mut heard = here.changes();
    let a = here.write(change("a", Some(json!(1))), Expected::Absent).await.unwrap().unwrap();
    assert!(heard.has_changed().unwrap());
    assert_eq!(*heard.borrow_and_update(), here.revision());
    here.write(change("b", Some(json!(2))), Expected::Absent).await.unwrap().unwrap();
    let ids = |view: &DocumentCache| {
        let found = view.of(bed.tenant, DocumentKind::Webhook);
        found.iter().map(|known| known.id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&here), ["a", "b"]);
    let changes = |view: &DocumentCache, kind| view.changes_of(bed.tenant, kind);
    assert_eq!((changes(&here, DocumentKind::Webhook), changes(&here, DocumentKind::Policy)), (2, 0));
    assert_eq!(ids(&there), [] as [&str; 0]);
    there.refresh().await.unwrap();
    assert_eq!(ids(&there), ["a", "b"]);
    assert_eq!(there.write(change("a", None), Expected::Version(a)).await.unwrap(), Some(there.revision()));
    assert_eq!(here.write(change("a", Some(json!(3))), Expected::Version(a)).await.unwrap(), None);
    assert_eq!(ids(&here), ["b"], "a refusal shows what is true");
    assert_eq!(changes(&here, DocumentKind::Webhook), 3, "a deletion is a change");
    assert_eq!(here.of(bed.tenant, DocumentKind::Policy), []);
    assert_eq!(here.all(DocumentKind::Webhook).len(), 1);
}

async fn an_answer_is_kept_with_the_document_or_neither_is(bed: Bed) {
    let write = async |id: &str, expected, kept| {
        let new = document(&bed, id, Some(json!({ "of": id })));
        bed.store.write_document(new, expected, line(&bed, "ann"), Some(kept)).await.unwrap()
    };
    let kept = async |key: &str| bed.store.idempotency(bed.tenant, "POST /threads", key).await.unwrap();
    assert!(write("a", Expected::Absent, bed.key("k")).await.is_some());
    assert_eq!(kept("k").await, Some(bed.key("k")));
    assert_eq!(write("b", Expected::Absent, bed.key("k")).await, None, "the key is taken");
    assert_eq!(read(&bed, "b").await, None);
    assert_eq!(write("a", Expected::Absent, bed.key("l")).await, None, "there is an `a`");
    assert_eq!(kept("l").await, None);
    let lines = bed.store.audit_of_tenant(bed.tenant, &page(10)).await.unwrap();
    assert_eq!(lines.items.len(), 1, "only what was written is accounted for");
}

async fn what_was_written_is_no_failure_if_it_cannot_be_read_again(bed: Bed) {
    let moody = Moody::over(bed.store.clone());
    let view = DocumentCache::open(moody.clone()).await.unwrap();
    moody.set("documents_since", Mood::Fails);
    let change = Change {
        tenant: bed.tenant,
        kind: DocumentKind::Policy,
        id: "a".into(),
        body: Some(json!({})),
        by: "ann".into(),
        former: None,
        by_tenant: None,
        why: None,
        now: 1,
    };
    let version = view.write(change.clone(), Expected::Absent).await.unwrap();
    assert!(version.is_some());
    assert!(view.write(change, Expected::Absent).await.is_err(), "the view may be what misled the caller");
    moody.set("documents_since", Mood::Well);
    view.refresh().await.unwrap();
    let seen = view.get(bed.tenant, DocumentKind::Policy, "a").unwrap();
    assert_eq!(Some(seen.version), version);
}

async fn deletions_are_forgotten_and_who_missed_them_reads_all(bed: Bed) {
    let ids = ["a", "b", "c", "d"];
    for id in ids {
        put(&bed, id, Expected::Absent).await.unwrap();
    }
    let stopped = DocumentCache::open(bed.store.clone()).await.unwrap();
    let (read_before, changes) = (stopped.revision(), stopped.changes_of(bed.tenant, DocumentKind::Policy));
    for id in ["a", "b", "d"] {
        delete(&bed, id, Expected::Any).await.unwrap();
    }
    let newest = put(&bed, "c", Expected::Any).await.unwrap();
    let forget = async |before: i64| bed.store.forget_documents(before, 2).await.unwrap();
    assert_eq!(forget(40).await, 0, "they were deleted at 40");
    assert_eq!(since(&bed, 0).await, (vec!["a".into(), "b".into(), "d".into(), "c".into()], false));
    assert_eq!((forget(41).await, forget(41).await, forget(41).await), (2, 1, 0), "two at once");
    assert_eq!(since(&bed, read_before).await, (vec!["c".into()], true));
    assert_eq!(since(&bed, newest - 1).await, (vec!["c".into()], false), "who has heard of the deletions goes on");
    stopped.refresh().await.unwrap();
    let kept: Vec<String> = stopped.of(bed.tenant, DocumentKind::Policy).iter().map(|known| known.id.clone()).collect();
    assert_eq!((kept, stopped.revision()), (vec!["c".to_owned()], newest));
    assert_eq!(stopped.changes_of(bed.tenant, DocumentKind::Policy), changes + 4, "three are gone, one is newer");
    assert!(put(&bed, "a", Expected::Absent).await.unwrap() > newest, "no version is given twice");
}

async fn a_document_that_is_there_again_is_not_forgotten(bed: Bed) {
    put(&bed, "a", Expected::Absent).await.unwrap();
    delete(&bed, "a", Expected::Any).await.unwrap();
    put(&bed, "a", Expected::Absent).await.unwrap();
    assert_eq!(bed.store.forget_documents(i64::MAX, 100).await.unwrap(), 0);
    assert!(read(&bed, "a").await.is_some());
}
