//! Documents: what tenants configure.

use async_trait::async_trait;
use sqlx::{Connection, PgConnection};

use super::fault::error;
use super::nul::escaped;
use super::{Postgres, audit, idempotency};
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::store::columns::Columns as _;
use crate::store::documents::{Document, DocumentChanges, DocumentKind, DocumentStore, Expected};
use crate::store::{AuditRow, ResponseToStore, Result};

/// Locked first, so that writes are serialised in the order of their versions.
const NEXT: &str = "UPDATE document_revision SET revision = revision + 1 WHERE id = 1 RETURNING revision";

/// Exact, because writes are serialised.
const COUNT: &str = "SELECT count(*) FROM documents WHERE tenant = $1 AND kind = $2 AND body IS NOT NULL";

const VERSION: &str = "SELECT version FROM documents WHERE tenant = $1 AND kind = $2 AND id = $3 AND body IS NOT NULL";

const WRITE: &str = "
INSERT INTO documents (tenant, kind, id, version, updated_at, body) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (tenant, kind, id)
DO UPDATE SET version = excluded.version, updated_at = excluded.updated_at, body = excluded.body";

macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT tenant, kind, id, version, updated_at, body FROM documents ", $rest)
    };
}

const ONE: &str = select!("WHERE tenant = $1 AND kind = $2 AND id = $3 AND body IS NOT NULL");

/// One statement, so that it reads one snapshot. $1: the version after which documents are read. If tombstones after it were
/// deleted, all documents are read.
const SINCE: &str = "
SELECT r.forgotten, d.tenant, d.kind, d.id, d.version, d.updated_at, d.body FROM document_revision r
LEFT JOIN documents d ON d.version > CASE WHEN $1 < r.forgotten THEN 0 ELSE $1 END AND d.kind = ANY($2)
ORDER BY d.version";

/// Locks the row of the revision first, as every write does.
const FORGET: &str = "
WITH revision AS (SELECT id FROM document_revision WHERE id = 1 FOR UPDATE),
gone AS (
    DELETE FROM documents WHERE version IN (
        SELECT version FROM documents, revision WHERE body IS NULL AND updated_at < $1 ORDER BY updated_at LIMIT $2)
    RETURNING version
)
UPDATE document_revision r SET forgotten = greatest(r.forgotten, (SELECT coalesce(max(version), 0) FROM gone))
FROM revision WHERE r.id = revision.id RETURNING (SELECT count(*) FROM gone)";

#[async_trait]
impl DocumentStore for Postgres {
    async fn write_document(
        &self,
        new: Document,
        old: Expected,
        audit: AuditRow,
        response: ResponseToStore,
    ) -> Result<Option<i64>> {
        self.pool.with_connection(async |connection| write(connection, new, old, audit, response).await).await
    }

    async fn document(&self, tenant: TenantPk, kind: DocumentKind, id: &str) -> Result<Option<Document>> {
        let query = sqlx::query(ONE).bind(tenant.0).bind(kind.as_str()).bind(escaped(id));
        self.pool.fetch_optional(query).await?.as_ref().map(Document::read).transpose()
    }

    async fn documents_since(&self, after: i64) -> Result<DocumentChanges> {
        let query = sqlx::query(SINCE).bind(after).bind(DocumentKind::names());
        let found = self.pool.fetch_all(query).await?;
        let forgotten = found.first().map_or(Ok(0), |row| row.number("forgotten"))?;
        let mut documents = Vec::with_capacity(found.len());
        for row in &found {
            if row.number_or_none("version")?.is_some() {
                documents.push(Document::read(row)?);
            }
        }
        Ok(DocumentChanges::of(documents, after, forgotten))
    }

    async fn forget_documents(&self, before: Millis, at_most: u32) -> Result<u64> {
        let query = sqlx::query_scalar::<_, i64>(FORGET).bind(before).bind(i64::from(at_most));
        let gone = self.pool.fetch_scalar(query).await?;
        Ok(gone.unsigned_abs())
    }
}

async fn write(
    connection: &mut PgConnection,
    new: Document,
    old: Expected,
    audit: AuditRow,
    response: ResponseToStore,
) -> Result<Option<i64>> {
    // Dropped without a commit, it is rolled back.
    let mut transaction = connection.begin().await.map_err(error)?;
    let revision: i64 = sqlx::query_scalar(NEXT).fetch_one(&mut *transaction).await.map_err(error)?;
    let version = sqlx::query_scalar(VERSION).bind(new.tenant.0).bind(new.kind.as_str()).bind(escaped(&new.id));
    let version: Option<i64> = version.fetch_optional(&mut *transaction).await.map_err(error)?;
    if !old.is_met(version, &new) {
        return Ok(None);
    }
    if let Some(bound) = old.bound() {
        let count = sqlx::query_scalar::<_, i64>(COUNT).bind(new.tenant.0).bind(new.kind.as_str());
        if count.fetch_one(&mut *transaction).await.map_err(error)? >= bound {
            return Ok(None);
        }
    }
    let write = sqlx::query(WRITE).bind(new.tenant.0).bind(new.kind.as_str()).bind(escaped(&new.id));
    let write = write.bind(revision).bind(new.updated_at).bind(new.body.map(|body| body.to_string()));
    write.execute(&mut *transaction).await.map_err(error)?;
    if let Some(response) = response
        && !idempotency::insert(&mut transaction, response).await?
    {
        return Ok(None);
    }
    audit::insert(&mut transaction, &audit).await?;
    transaction.commit().await.map_err(error)?;
    Ok(Some(revision))
}
