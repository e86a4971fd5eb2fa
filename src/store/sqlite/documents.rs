//! Documents: what tenants configure.

use async_trait::async_trait;
use rusqlite::{OptionalExtension as _, Transaction, params};
use serde_json::json;

use super::{Sqlite, audit, idempotency};
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::store::documents::{Document, DocumentChanges, DocumentKind, DocumentStore, Expected};
use crate::store::{AuditRow, IdempotencyRow, ResponseToStore, Result};

const VERSION: &str = "SELECT version FROM documents WHERE tenant = ?1 AND kind = ?2 AND id = ?3 AND body IS NOT NULL";

const COUNT: &str = "SELECT count(*) FROM documents WHERE tenant = ?1 AND kind = ?2 AND body IS NOT NULL";

const NEXT_REVISION: &str = "UPDATE document_revision SET revision = revision + 1 RETURNING revision";

const WRITE: &str = "
INSERT INTO documents (tenant, kind, id, version, updated_at, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (tenant, kind, id)
DO UPDATE SET version = excluded.version, updated_at = excluded.updated_at, body = excluded.body";

macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT tenant, kind, id, version, updated_at, body FROM documents ", $rest)
    };
}

const ONE: &str = select!("WHERE tenant = ? AND kind = ? AND id = ? AND body IS NOT NULL");

const SINCE: &str = select!("WHERE version > ? AND kind IN (SELECT value FROM json_each(?)) ORDER BY version");

const FORGOTTEN: &str = "SELECT forgotten FROM document_revision";

const FORGET: &str = "
DELETE FROM documents WHERE version IN (
    SELECT version FROM documents WHERE body IS NULL AND updated_at < ?1 ORDER BY updated_at LIMIT ?2)
RETURNING version";

const FORGOT: &str = "UPDATE document_revision SET forgotten = max(forgotten, ?1)";

#[async_trait]
impl DocumentStore for Sqlite {
    async fn write_document(
        &self,
        new: Document,
        old: Expected,
        audit: AuditRow,
        response: ResponseToStore,
    ) -> Result<Option<i64>> {
        self.writer.write(move |tx| write(tx, &new, old, &audit, response.as_ref())).await
    }

    async fn document(&self, tenant: TenantPk, kind: DocumentKind, id: &str) -> Result<Option<Document>> {
        let query = sqlx::query(ONE).bind(tenant.0).bind(kind.as_str()).bind(id);
        query.fetch_optional(&self.readers).await.map_err(self.unreadable())?.as_ref().map(Document::read).transpose()
    }

    async fn documents_since(&self, after: i64) -> Result<DocumentChanges> {
        let kinds = json!(DocumentKind::names()).to_string();
        // Both are read in one snapshot.
        let mut snapshot = self.readers.begin().await.map_err(self.unreadable())?;
        let forgotten: i64 =
            sqlx::query_scalar(FORGOTTEN).fetch_one(&mut *snapshot).await.map_err(self.unreadable())?;
        let from = if after < forgotten { 0 } else { after };
        let found =
            sqlx::query(SINCE).bind(from).bind(kinds).fetch_all(&mut *snapshot).await.map_err(self.unreadable())?;
        let documents = found.iter().map(Document::read).collect::<Result<_>>()?;
        Ok(DocumentChanges::of(documents, after, forgotten))
    }

    async fn forget_documents(&self, before: Millis, at_most: u32) -> Result<u64> {
        let forget = move |tx: &Transaction<'_>| {
            let mut forget = tx.prepare_cached(FORGET)?;
            let gone = forget.query_map(params![before, at_most], |row| row.get::<_, i64>(0))?;
            let gone = gone.collect::<rusqlite::Result<Vec<i64>>>()?;
            if let Some(newest) = gone.iter().max() {
                tx.prepare_cached(FORGOT)?.execute(params![newest])?;
            }
            Ok(gone.len() as u64)
        };
        self.writer.chore(forget).await
    }
}

fn write(
    tx: &Transaction<'_>,
    new: &Document,
    old: Expected,
    audit_row: &AuditRow,
    response: Option<&IdempotencyRow>,
) -> rusqlite::Result<Option<i64>> {
    let mut version = tx.prepare_cached(VERSION)?;
    let version = version.query_row(params![new.tenant.0, new.kind.as_str(), new.id], |row| row.get(0)).optional()?;
    if !old.is_met(version, new) || response.map(|key| idempotency::is_taken(tx, key)).transpose()?.unwrap_or(false) {
        return Ok(None);
    }
    if let Some(bound) = old.bound()
        && tx.prepare_cached(COUNT)?.query_row(params![new.tenant.0, new.kind.as_str()], |row| row.get::<_, i64>(0))?
            >= bound
    {
        return Ok(None);
    }
    if let Some(key) = response {
        idempotency::insert(tx, ThreadPk::NONE, key)?;
    }
    audit::insert(tx, audit_row)?;
    let revision: i64 = tx.prepare_cached(NEXT_REVISION)?.query_row([], |row| row.get(0))?;
    let body = new.body.as_ref().map(|body| body.to_string());
    let arguments = params![new.tenant.0, new.kind.as_str(), new.id, revision, new.updated_at, body];
    tx.prepare_cached(WRITE)?.execute(arguments)?;
    Ok(Some(revision))
}
