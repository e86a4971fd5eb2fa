//! What tenants configure.

use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqlitePool};

use super::fault::unreadable;
use super::log;
use super::writer::Writer;
use crate::domain::ids::TenantPk;
use crate::store::cursor::{Cursor, page};
use crate::store::document::{Document, DocumentKind, Expected};
use crate::store::{AuditRow, IdempotencyRow, Page, PageAsk, Result, text};

/// $1 tenant, $2 kind, $3 id, $4 time, $5 body, $6 the version to be found (0 = none, -1 = any); then the audit line, and
/// from $12 the answer to be kept, if any. The document itself is written last: every condition looks at what was stored
/// before.
const WRITE: &str = "
BEGIN IMMEDIATE;
CREATE TEMP TABLE IF NOT EXISTS wanted (is_met INTEGER NOT NULL, tenant INTEGER NOT NULL, scope TEXT, key TEXT,
    fingerprint TEXT, status INTEGER, location TEXT, created_at INTEGER, body TEXT) STRICT;
DELETE FROM wanted;
INSERT INTO wanted
SELECT CASE ?6 WHEN -1 THEN d.version > 0 OR ?5 IS NOT NULL ELSE d.version = ?6 END,
    ?1, ?12, ?13, ?14, ?15, ?16, ?17, ?18
FROM (SELECT coalesce(max(version), 0) AS version FROM documents
      WHERE tenant = ?1 AND kind = ?2 AND id = ?3 AND body IS NOT NULL) d;
UPDATE wanted SET is_met = 0
WHERE EXISTS (SELECT 1 FROM idempotency i WHERE (i.tenant, i.scope, i.key) = (wanted.tenant, wanted.scope, wanted.key));
INSERT INTO idempotency (pk, tenant, scope, key, fingerprint, status, location, created_at, body)
SELECT 0, * FROM (SELECT tenant, scope, key, fingerprint, status, location, created_at, body FROM wanted
                  WHERE is_met AND key IS NOT NULL);
INSERT INTO audit (pk, tenant, at, actor, action, detail) SELECT ?7, ?1, ?8, ?9, ?10, ?11 FROM wanted WHERE is_met;
UPDATE document_revision SET revision = revision + 1 WHERE (SELECT is_met FROM wanted);
INSERT INTO documents (tenant, kind, id, version, updated_at, body)
SELECT ?1, ?2, ?3, revision, ?4, ?5 FROM document_revision WHERE (SELECT is_met FROM wanted)
ON CONFLICT (tenant, kind, id)
DO UPDATE SET version = excluded.version, updated_at = excluded.updated_at, body = excluded.body
RETURNING version;
COMMIT";

macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT tenant, kind, id, version, updated_at, body FROM documents ", $rest)
    };
}

pub(super) async fn write(
    writer: &Writer,
    document: Document,
    expected: Expected,
    audit: AuditRow,
    kept: Option<IdempotencyRow>,
) -> Result<Option<i64>> {
    let script = sqlx::query(WRITE).bind(document.tenant.0).bind(document.kind.as_str()).bind(document.id);
    let script = script.bind(document.updated_at).bind(document.body.map(|body| body.to_string()));
    let script = script.bind(text::expected(expected)).bind(audit.thread.0).bind(audit.at);
    let script = script.bind(audit.actor).bind(audit.action).bind(audit.detail.to_string());
    let script = log::with_kept(script, kept);
    let written = writer.write(script).await?;
    written.first().map(|row| row.try_get(0)).transpose().map_err(unreadable)
}

pub(super) async fn one(db: &SqlitePool, tenant: TenantPk, kind: DocumentKind, id: &str) -> Result<Option<Document>> {
    let query = sqlx::query(select!("WHERE tenant = ? AND kind = ? AND id = ? AND body IS NOT NULL"));
    let found = query.bind(tenant.0).bind(kind.as_str()).bind(id).fetch_optional(db).await.map_err(unreadable)?;
    found.as_ref().map(document).transpose()
}

pub(super) async fn since(db: &SqlitePool, after: i64) -> Result<Vec<Document>> {
    let query = sqlx::query(select!("WHERE version > ? ORDER BY version")).bind(after);
    query.fetch_all(db).await.map_err(unreadable)?.iter().map(document).collect()
}

fn document(row: &SqliteRow) -> Result<Document> {
    let columns = || Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?, row.try_get(4)?));
    let (tenant, kind, id, version, updated_at) = columns().map_err(unreadable)?;
    let body: Option<&str> = row.try_get(5).map_err(unreadable)?;
    let (kind, body) = (text::document_kind(kind)?, body.map(text::document));
    Ok(Document { tenant: TenantPk(tenant), kind, id, version, updated_at, body })
}

pub(super) async fn audit_of_tenant(db: &SqlitePool, tenant: TenantPk, ask: &PageAsk) -> Result<Page<AuditRow>> {
    let before = Cursor::of(ask)?.map_or(i64::MAX, |cursor| cursor.at);
    let query = sqlx::query(
        "SELECT rowid, pk, tenant, thread_id, at, actor, action, detail FROM audit
         WHERE pk = 0 AND tenant = ? AND rowid < ? ORDER BY rowid DESC LIMIT ?",
    );
    let query = query.bind(tenant.0).bind(before).bind(i64::from(ask.limit) + 1);
    let found = query.fetch_all(db).await.map_err(unreadable)?;
    let placed = |row: &SqliteRow| Ok((row.try_get("rowid").map_err(unreadable)?, log::audit_row(row)?));
    let found = found.iter().map(placed).collect::<Result<Vec<_>>>()?;
    let found = page(found, ask.limit, |(at, _)| Cursor::new(*at, ""));
    Ok(Page { items: found.items.into_iter().map(|(_, line)| line).collect(), next_cursor: found.next_cursor })
}
