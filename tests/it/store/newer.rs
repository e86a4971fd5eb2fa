//! Kinds that a newer release added without changing the schema are left alone, and this release works beside them.

use std::sync::Arc;

use pes::config::Synchronous;
use pes::domain::ids::ThreadPk;
use pes::engine::step::{Keep, RowKind};
use pes::store::AuditRow;
use pes::store::documents::{Document, DocumentCache, DocumentKind, Expected};
use pes::store::sqlite::Sqlite;
use serde_json::json;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, raw_sql};

use super::bed::{Bed, row};
use super::deliveries::{claim_some, new, post};
use crate::support::postgres::Database;
use crate::support::store::store_on;

/// A copy of each document, row and delivery, of an unknown kind.
const LATER: &str = "
UPDATE document_revision SET revision = revision + 1;
INSERT INTO documents (tenant, kind, id, version, updated_at, body)
SELECT tenant, 'of a later release', id, version + 1, updated_at, body FROM documents;
INSERT INTO thread_rows (pk, tenant, ord, kind, keep, id, body)
SELECT pk, tenant, ord, 99, keep, id, body FROM thread_rows;
INSERT INTO deliveries (pk, tenant, id, target_kind, target, lane, event, status, due_at, attempts, created_at, body)
SELECT pk, tenant, 'later', 'of a later release', target, lane, event, status, due_at - 50, attempts, created_at, body
FROM deliveries";

async fn policy(bed: &Bed) {
    let body = Some(json!({ "rules": [] }));
    let policy =
        Document { tenant: bed.tenant, kind: DocumentKind::Policy, id: "p".into(), version: 0, updated_at: 40, body };
    let line = AuditRow { action: "put document".into(), ..bed.audit_line(ThreadPk::NONE, "ann") };
    bed.store.write_document(policy, Expected::Absent, line, None).await.unwrap().expect("it is written");
}

async fn fill(bed: &Bed) -> ThreadPk {
    policy(bed).await;
    let thread = bed.thread("t").await;
    bed.write(thread, vec![row(RowKind::Item, "a", 1, Keep::Always)]).await;
    post(bed, thread, vec![new("known", None)]).await;
    thread
}

async fn works_beside_it(bed: &Bed, thread: ThreadPk) {
    let documents = DocumentCache::open(bed.store.clone()).await.expect("it opens");
    let kinds: Vec<DocumentKind> = documents.of_all().iter().map(|document| document.kind).collect();
    assert_eq!(kinds, [DocumentKind::Policy]);
    assert_eq!(bed.store.next_single().await.unwrap(), Some(100), "the one that is known");
    let (thread, rows) = bed.store.load(thread).await.expect("it is read").expect("it is there");
    assert_eq!(rows, [row(RowKind::Item, "a", 1, Keep::Always)], "{thread:?}");
    assert_eq!(bed.store.tenants_due(99).await.unwrap(), [], "what is not known is nobody's turn");
    let claimed = claim_some(bed, 100, 10).await;
    assert_eq!(claimed.iter().map(|delivery| delivery.id.as_str()).collect::<Vec<_>>(), ["known"]);
}

#[tokio::test]
async fn kinds_that_are_not_known_are_left_alone_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap();
    let mut other = SqliteConnectOptions::new().filename(folder.path().join("pes.db")).connect().await.unwrap();
    let bed = Bed::on(Arc::new(store), Arc::new(folder)).await;
    let thread = fill(&bed).await;
    raw_sql(LATER).execute(&mut other).await.unwrap();
    works_beside_it(&bed, thread).await;
}

#[tokio::test]
async fn kinds_that_are_not_known_are_left_alone_on_postgresql() {
    let database = Database::fresh().await;
    let store = store_on(&database).await;
    let mut other = database.connect().await;
    let bed = Bed::on(store, Arc::new(database)).await;
    let thread = fill(&bed).await;
    raw_sql(LATER).execute(&mut other).await.unwrap();
    works_beside_it(&bed, thread).await;
}
