//! Documents: what tenants configure.

use async_trait::async_trait;
use sqlx::{Connection, PgConnection};

use super::fault::error;
use super::nul::escaped;
use super::{Postgres, audit, idempotency};
use crate::domain::ids::TenantPk;
use crate::store::documents::{Document, DocumentKind, DocumentStore, Expected};
use crate::store::{AnswerToStore, AuditRow, Result};

/// Taken first: writes go one after another, in the order of their versions.
const NEXT: &str = "UPDATE document_revision SET revision = revision + 1 WHERE id = 1 RETURNING revision";

/// $6: the version to be found (0 = none, -1 = any).
const WRITE: &str = "
WITH known AS (
    SELECT coalesce(max(version), 0) AS version FROM documents
    WHERE tenant = $1 AND kind = $2 AND id = $3 AND body IS NOT NULL
)
INSERT INTO documents (tenant, kind, id, version, updated_at, body)
SELECT $1, $2, $3, $7, $4, $5 FROM known
WHERE CASE $6 WHEN -1 THEN known.version > 0 OR $5 IS NOT NULL ELSE known.version = $6 END
ON CONFLICT (tenant, kind, id)
DO UPDATE SET version = excluded.version, updated_at = excluded.updated_at, body = excluded.body";

macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT tenant, kind, id, version, updated_at, body FROM documents ", $rest)
    };
}

const ONE: &str = select!("WHERE tenant = $1 AND kind = $2 AND id = $3 AND body IS NOT NULL");

const SINCE: &str = select!("WHERE version > $1 AND kind = ANY($2) ORDER BY version");

#[async_trait]
impl DocumentStore for Postgres {
    async fn write_document(
        &self,
        new: Document,
        old: Expected,
        audit: AuditRow,
        kept: AnswerToStore,
    ) -> Result<Option<i64>> {
        self.pool.with_connection(async |connection| write(connection, new, old, audit, kept).await).await
    }

    async fn document(&self, tenant: TenantPk, kind: DocumentKind, id: &str) -> Result<Option<Document>> {
        let query = sqlx::query(ONE).bind(tenant.0).bind(kind.as_str()).bind(escaped(id));
        self.pool
            .with_query(async |connection| query.fetch_optional(connection).await)
            .await?
            .as_ref()
            .map(Document::read)
            .transpose()
    }

    async fn documents_since(&self, after: i64) -> Result<Vec<Document>> {
        let query = sqlx::query(SINCE).bind(after).bind(DocumentKind::names());
        let found = self.pool.with_query(async |connection| query.fetch_all(connection).await).await?;
        found.iter().map(Document::read).collect()
    }
}

async fn write(
    connection: &mut PgConnection,
    new: Document,
    old: Expected,
    audit: AuditRow,
    kept: AnswerToStore,
) -> Result<Option<i64>> {
    // Dropped without a commit, it is rolled back.
    let mut transaction = connection.begin().await.map_err(error)?;
    let version: i64 = sqlx::query_scalar(NEXT).fetch_one(&mut *transaction).await.map_err(error)?;
    let write = sqlx::query(WRITE).bind(new.tenant.0).bind(new.kind.as_str()).bind(escaped(&new.id));
    let write = write.bind(new.updated_at).bind(new.body.map(|body| body.to_string()));
    let write = write.bind(old.code()).bind(version);
    if write.execute(&mut *transaction).await.map_err(error)?.rows_affected() == 0 {
        return Ok(None);
    }
    if let Some(kept) = kept
        && !idempotency::keep(&mut transaction, kept).await?
    {
        return Ok(None);
    }
    audit::insert(&mut transaction, &audit).await?;
    transaction.commit().await.map_err(error)?;
    Ok(Some(version))
}
