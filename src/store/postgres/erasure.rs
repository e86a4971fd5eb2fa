//! Deletion of threads: some rows at once, the rest later. Copies that PostgreSQL keeps until a vacuum, in its log and in
//! backups, cannot be overwritten by this server.

use async_trait::async_trait;
use sqlx::{Connection, PgConnection};

use super::fault::error;
use super::{Postgres, audit, outbox, spend, usage};
use crate::domain::ids::TenantPk;
use crate::domain::webhook::WebhookEvent;
use crate::store::erasure::BYTES_AT_ONCE;
use crate::store::{Erasure, ErasureStore, Result};

/// How many rows one transaction removes at most: for most threads all.
const AT_ONCE: i64 = 1_000;

/// Removes some rows within the limits of rows and bytes. The usage of a deleted thread is kept, as far as it can be read.
/// Concurrent replicas take different rows.
const REMOVE: &str = r#"
WITH found AS (
        SELECT i.* FROM (SELECT 1 AS nth, ctid AS place, pg_column_size(body) AS size FROM idempotency
            WHERE pk = $1 LIMIT $2 FOR UPDATE SKIP LOCKED) i
        UNION ALL SELECT l.* FROM (SELECT 2, ctid, 0 FROM lookup_keys WHERE pk = $1 LIMIT $2 FOR UPDATE SKIP LOCKED) l
        UNION ALL SELECT r.* FROM (SELECT 3, ctid, pg_column_size(body) FROM thread_rows
            WHERE pk = $1 LIMIT $2 FOR UPDATE SKIP LOCKED) r
        UNION ALL SELECT o.* FROM (SELECT 4, ctid, pg_column_size(body) + coalesce(pg_column_size(compressed), 0) FROM observations
            WHERE pk = $1 LIMIT $2 FOR UPDATE SKIP LOCKED) o),
    taken AS (SELECT nth, place FROM (
            SELECT nth, place, sum(size) OVER (ROWS UNBOUNDED PRECEDING) - size AS before FROM found) f
        WHERE before < $3 LIMIT $2),
    i AS (DELETE FROM idempotency WHERE ctid = ANY (ARRAY(SELECT place FROM taken WHERE nth = 1))),
    l AS (DELETE FROM lookup_keys WHERE ctid = ANY (ARRAY(SELECT place FROM taken WHERE nth = 2))),
    r AS (DELETE FROM thread_rows WHERE ctid = ANY (ARRAY(SELECT place FROM taken WHERE nth = 3))
        RETURNING tenant, kind, ord, body),
    u AS (INSERT INTO usage_kept (tenant, ord, body)
        SELECT tenant, ord, ((pes_json(body) - 'item') || '{"run": "deleted"}')::text FROM r
        WHERE kind = 11 AND pes_json(body) IS NOT NULL),
    b AS (DELETE FROM bases WHERE pk = $1),
    o AS (DELETE FROM observations WHERE ctid = ANY (ARRAY(SELECT place FROM taken WHERE nth = 4)))
SELECT count(*) FROM taken"#;

const NEXT: &str = "SELECT pk FROM erased_threads WHERE NOT is_empty ORDER BY erased_at LIMIT 1";

const IS_EMPTY: &str = "
UPDATE erased_threads SET is_empty = NOT EXISTS (SELECT FROM idempotency WHERE pk = $1)
    AND NOT EXISTS (SELECT FROM lookup_keys WHERE pk = $1)
    AND NOT EXISTS (SELECT FROM thread_rows WHERE pk = $1)
    AND NOT EXISTS (SELECT FROM observations WHERE pk = $1)
WHERE pk = $1";

/// Pending messages to webhooks and to the collector are still sent: they have no contents, except for questions, which
/// nobody can answer any more.
const DELIVERIES: &str = "
DELETE FROM deliveries
WHERE pk = $1 AND (due_at IS NULL OR target_kind NOT IN ('webhook', 'collector') OR event = $2)";

#[async_trait]
impl ErasureStore for Postgres {
    async fn erase_rows(&self, limit: u32) -> Result<u64> {
        self.pool.with_connection(async |connection| erase_rows(connection, i64::from(limit)).await).await
    }

    async fn overwrite_erased(&self) -> Result<bool> {
        let forget = sqlx::query("DELETE FROM erased_threads WHERE is_empty");
        self.pool.execute(forget).await?;
        Ok(true)
    }
}

/// Deletes the thread if its version is the one that was read; the rest of a large one is left to [`erase_rows`]. The
/// thread's own row is deleted first, alone: that waits for a commit in flight and prevents every other.
pub(super) async fn erase(connection: &mut PgConnection, erasure: &Erasure) -> Result<bool> {
    let pk = erasure.thread.0;
    let mut transaction = connection.begin().await.map_err(error)?;
    let gone = sqlx::query_scalar("DELETE FROM threads WHERE pk = $1 AND version = $2 RETURNING tenant");
    let gone: Option<i64> =
        gone.bind(pk).bind(erasure.version).fetch_optional(&mut *transaction).await.map_err(error)?;
    let Some(tenant) = gone else { return Ok(false) };
    for sql in [
        "DELETE FROM crashes WHERE pk = $1",
        // The thread no longer waits for a run slot.
        "DELETE FROM thread_rows WHERE pk = $1 AND kind = 17",
    ] {
        sqlx::query(sql).bind(pk).execute(&mut *transaction).await.map_err(error)?;
    }
    let deliveries = sqlx::query(DELIVERIES).bind(pk).bind(WebhookEvent::SuspensionRequested.as_str());
    deliveries.execute(&mut *transaction).await.map_err(error)?;
    let erased = sqlx::query("INSERT INTO erased_threads (pk, erased_at, is_empty) VALUES ($1, $2, false)");
    erased.bind(pk).bind(erasure.now).execute(&mut *transaction).await.map_err(error)?;
    remove(&mut transaction, pk, AT_ONCE).await?;
    outbox::insert_all(&mut transaction, (erasure.thread, TenantPk(tenant)), erasure.now, &erasure.deliveries).await?;
    for (at, body) in erasure.usage_to_keep() {
        let keep = sqlx::query(usage::ADD);
        keep.bind(tenant).bind(at).bind(body).execute(&mut *transaction).await.map_err(error)?;
    }
    audit::insert(&mut transaction, &erasure.audit).await?;
    spend::change(&mut transaction, &erasure.spend, erasure.now).await?;
    transaction.commit().await.map_err(error)?;
    Ok(true)
}

/// Removes some rows of the thread that was deleted first.
async fn erase_rows(connection: &mut PgConnection, limit: i64) -> Result<u64> {
    let mut transaction = connection.begin().await.map_err(error)?;
    let next: Option<i64> = sqlx::query_scalar(NEXT).fetch_optional(&mut *transaction).await.map_err(error)?;
    let Some(pk) = next else { return Ok(0) };
    let removed = remove(&mut transaction, pk, limit).await?;
    transaction.commit().await.map_err(error)?;
    // Never 0, because rows of other threads may be left.
    Ok(removed.max(1))
}

async fn remove(transaction: &mut PgConnection, pk: i64, limit: i64) -> Result<u64> {
    let remove = sqlx::query_scalar(REMOVE).bind(pk).bind(limit).bind(BYTES_AT_ONCE);
    let removed: i64 = remove.fetch_one(&mut *transaction).await.map_err(error)?;
    sqlx::query(IS_EMPTY).bind(pk).execute(transaction).await.map_err(error)?;
    Ok(removed.unsigned_abs())
}
