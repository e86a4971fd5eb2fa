//! Documents: what tenants configure.

use async_trait::async_trait;

use super::Sqlite;
use super::fault::unreadable;
use super::idempotency::with_kept;
use crate::domain::ids::TenantPk;
use crate::store::columns::Columns as _;
use crate::store::documents::{Document, DocumentKind, DocumentStore, Expected};
use crate::store::{AnswerToStore, AuditRow, Result};

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

const ONE: &str = select!("WHERE tenant = ? AND kind = ? AND id = ? AND body IS NOT NULL");

const SINCE: &str = select!("WHERE version > ? ORDER BY version");

#[async_trait]
impl DocumentStore for Sqlite {
    async fn write_document(
        &self,
        new: Document,
        old: Expected,
        audit: AuditRow,
        kept: AnswerToStore,
    ) -> Result<Option<i64>> {
        let script = sqlx::query(WRITE).bind(new.tenant.0).bind(new.kind.as_str()).bind(new.id);
        let script = script.bind(new.updated_at).bind(new.body.map(|body| body.to_string()));
        let script = script.bind(old.code()).bind(audit.thread.0).bind(audit.at);
        let script = script.bind(audit.actor).bind(audit.action).bind(audit.detail.to_string());
        let written = self.writer.write(with_kept(script, kept)).await?;
        written.first().map(|row| row.number("version")).transpose()
    }

    async fn document(&self, tenant: TenantPk, kind: DocumentKind, id: &str) -> Result<Option<Document>> {
        let query = sqlx::query(ONE).bind(tenant.0).bind(kind.as_str()).bind(id);
        query.fetch_optional(&self.readers).await.map_err(unreadable)?.as_ref().map(Document::read).transpose()
    }

    async fn documents_since(&self, after: i64) -> Result<Vec<Document>> {
        let found = sqlx::query(SINCE).bind(after).fetch_all(&self.readers).await.map_err(unreadable)?;
        found.iter().map(Document::read).collect()
    }
}
