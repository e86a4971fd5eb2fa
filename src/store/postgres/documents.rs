//! What tenants configure.

use sqlx::postgres::PgRow;
use sqlx::{Connection, PgConnection, Row as _};

use super::fault::error;
use super::ledger;
use super::nul::{escaped, unescaped};
use super::pool::Pool;
use crate::domain::ids::TenantPk;
use crate::store::cursor::{Cursor, page};
use crate::store::document::{Document, DocumentKind, Expected};
use crate::store::{AuditRow, IdempotencyRow, Page, PageAsk, Result, text};

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

const SINCE: &str = select!("WHERE version > $1 ORDER BY version");

const AUDIT_OF_TENANT: &str = "
SELECT id, pk, tenant, thread_id, at, actor, action, detail FROM audit
WHERE pk = 0 AND tenant = $1 AND id < $2 ORDER BY id DESC LIMIT $3";

pub(super) async fn write(
    pool: &Pool,
    document: Document,
    expected: Expected,
    audit: AuditRow,
    kept: Option<IdempotencyRow>,
) -> Result<Option<i64>> {
    pool.talk(async |line| transact(line, document, expected, audit, kept).await).await
}

async fn transact(
    line: &mut PgConnection,
    document: Document,
    expected: Expected,
    audit: AuditRow,
    kept: Option<IdempotencyRow>,
) -> Result<Option<i64>> {
    // Dropped without a commit, it is rolled back.
    let mut transaction = line.begin().await.map_err(error)?;
    let version: i64 = sqlx::query_scalar(NEXT).fetch_one(&mut *transaction).await.map_err(error)?;
    let write = sqlx::query(WRITE).bind(document.tenant.0).bind(document.kind.as_str()).bind(escaped(&document.id));
    let write = write.bind(document.updated_at).bind(document.body.map(|body| body.to_string()));
    let write = write.bind(text::expected(expected)).bind(version);
    if write.execute(&mut *transaction).await.map_err(error)?.rows_affected() == 0 {
        return Ok(None);
    }
    if let Some(kept) = kept
        && !ledger::keep(&mut transaction, kept).await?
    {
        return Ok(None);
    }
    ledger::note(&mut transaction, &audit).await?;
    transaction.commit().await.map_err(error)?;
    Ok(Some(version))
}

pub(super) async fn one(pool: &Pool, tenant: TenantPk, kind: DocumentKind, id: &str) -> Result<Option<Document>> {
    let query = sqlx::query(ONE).bind(tenant.0).bind(kind.as_str()).bind(escaped(id));
    pool.ask(async |line| query.fetch_optional(line).await).await?.as_ref().map(document).transpose()
}

pub(super) async fn since(pool: &Pool, after: i64) -> Result<Vec<Document>> {
    let found = pool.ask(async |line| sqlx::query(SINCE).bind(after).fetch_all(line).await).await?;
    found.iter().map(document).collect()
}

fn document(row: &PgRow) -> Result<Document> {
    let body: Option<&str> = row.try_get("body").map_err(error)?;
    Ok(Document {
        tenant: TenantPk(row.try_get("tenant").map_err(error)?),
        kind: text::document_kind(row.try_get("kind").map_err(error)?)?,
        id: unescaped(row.try_get("id").map_err(error)?),
        version: row.try_get("version").map_err(error)?,
        updated_at: row.try_get("updated_at").map_err(error)?,
        body: body.map(text::document),
    })
}

pub(super) async fn audit_of_tenant(pool: &Pool, tenant: TenantPk, ask: &PageAsk) -> Result<Page<AuditRow>> {
    let before = Cursor::of(ask)?.map_or(i64::MAX, |cursor| cursor.at);
    let query = sqlx::query(AUDIT_OF_TENANT).bind(tenant.0).bind(before).bind(i64::from(ask.limit) + 1);
    let found = pool.ask(async |line| query.fetch_all(line).await).await?;
    let placed = |row: &PgRow| Ok((row.try_get("id").map_err(error)?, ledger::audit_row(row)?));
    let found = found.iter().map(placed).collect::<Result<Vec<_>>>()?;
    let found = page(found, ask.limit, |(at, _)| Cursor::new(*at, ""));
    Ok(Page { items: found.items.into_iter().map(|(_, line)| line).collect(), next_cursor: found.next_cursor })
}
