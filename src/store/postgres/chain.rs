//! The chain of audit lines.

use async_trait::async_trait;
use sqlx::{Connection, PgConnection};

use super::fault::error;
use super::nul::escaped;
use super::{Postgres, audit, outbox};
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadId, ThreadPk};
use crate::store::chain::page_of_chained_lines;
use crate::store::{
    AuditRow, ChainEnd, ChainReads, ChainStore, ChainedLine, Checkpoint, NewLinks, Page, PageAsk, Result, UnchainedLine,
};

const TENANTS: &str = "SELECT DISTINCT tenant FROM audit WHERE n IS NULL ORDER BY tenant";

const MISSING: &str = "
SELECT tenant FROM (SELECT tenant FROM audit UNION SELECT tenant FROM audit_checkpoints) named
WHERE tenant NOT IN (SELECT pk FROM tenants) ORDER BY tenant";

const UNCHAINED: &str = "
SELECT id, pk, tenant, thread_id, at, actor, action, detail FROM audit
WHERE tenant = $1 AND n IS NULL ORDER BY tenant, id LIMIT $2";

/// The end by both lines and checkpoints: if some of either were removed, the others still show it.
const END: &str = "
SELECT n, hash, jws FROM (
    (SELECT n, hash, jws, 1 AS is_checkpoint FROM audit_checkpoints WHERE tenant = $1 ORDER BY n DESC LIMIT 1)
    UNION ALL
    (SELECT n, hash, NULL, 0 FROM audit WHERE tenant = $1 AND n IS NOT NULL ORDER BY n DESC LIMIT 1)) ends
ORDER BY n DESC, is_checkpoint DESC LIMIT 1";

/// Only one process at a time adds to a chain. A concurrent one gets no row, and tries again later.
const TAKE: &str = "SELECT pk FROM tenants WHERE pk = $1 FOR NO KEY UPDATE SKIP LOCKED";

const LINK: &str = "
UPDATE audit SET n = new.n, hash = new.hash FROM unnest($2::bigint[], $3::bigint[], $4::text[]) new (id, n, hash)
WHERE audit.id = new.id AND audit.tenant = $1 AND audit.n IS NULL";

const CHECKPOINT: &str = "
INSERT INTO audit_checkpoints (tenant, n, at, hash, jws) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (tenant, n) DO UPDATE SET at = excluded.at, hash = excluded.hash, jws = excluded.jws";

const CHAINED: &str = "
SELECT n, hash, pk, tenant, thread_id, at, actor, action, detail FROM audit
WHERE tenant = $1 AND n > $2 ORDER BY n LIMIT $3";

const OF_THREAD: &str = "
SELECT id, n, hash, pk, tenant, thread_id, at, actor, action, detail FROM audit
WHERE tenant = $1 AND thread_id = $2 AND n IS NOT NULL AND id > $3 ORDER BY id LIMIT $4";

const CHECKPOINTS: &str =
    "SELECT n, hash, at, jws FROM audit_checkpoints WHERE tenant = $1 AND n > $2 ORDER BY n LIMIT $3";

/// Clocks are set: a checkpoint with a higher number may have an earlier time.
const CHECKPOINT_BEFORE: &str = "
SELECT n, hash, at, jws FROM audit_checkpoints
WHERE tenant = $1 AND n < coalesce(
    (SELECT n FROM audit_checkpoints WHERE tenant = $1 AND at >= $2 ORDER BY n LIMIT 1), 9223372036854775807)
ORDER BY n DESC LIMIT 1";

/// Terms that cannot be read may contain a hold.
const FIRST_HELD: &str = "
SELECT min(a.n) FROM thread_rows h
JOIN threads t ON t.pk = h.pk
JOIN audit a ON a.tenant = t.tenant AND a.thread_id = t.thread_id
WHERE h.kind = 14 AND h.tenant = $1 AND t.tenant = $1 AND a.n IS NOT NULL
    AND (pes_json(h.body) IS NULL OR pes_json(h.body) -> 'hold' IS NOT NULL)";

const FORGET: &str = "
WITH checkpoints AS (DELETE FROM audit_checkpoints WHERE tenant = $1 AND n < $2)
DELETE FROM audit WHERE tenant = $1 AND n <= $2";

#[async_trait]
impl ChainReads for Postgres {
    async fn tenants_to_chain(&self) -> Result<Vec<TenantPk>> {
        let query = sqlx::query_scalar(TENANTS);
        let found = self.pool.fetch_scalars(query).await?;
        Ok(found.into_iter().map(TenantPk).collect())
    }

    async fn tenants_missing(&self) -> Result<Vec<TenantPk>> {
        let found = self.pool.fetch_scalars(sqlx::query_scalar(MISSING)).await?;
        Ok(found.into_iter().map(TenantPk).collect())
    }

    async fn unchained_lines(&self, tenant: TenantPk, limit: u32) -> Result<Vec<UnchainedLine>> {
        let query = sqlx::query(UNCHAINED).bind(tenant.0).bind(i64::from(limit));
        let found = self.pool.fetch_all(query).await?;
        found.iter().map(UnchainedLine::read).collect()
    }

    async fn chain_end(&self, tenant: TenantPk) -> Result<ChainEnd> {
        let query = sqlx::query(END).bind(tenant.0);
        let found = self.pool.fetch_optional(query).await?;
        found.as_ref().map_or_else(|| Ok(ChainEnd::none()), ChainEnd::read)
    }

    async fn chained_lines(&self, tenant: TenantPk, after: i64, limit: u32) -> Result<Vec<ChainedLine>> {
        let query = sqlx::query(CHAINED).bind(tenant.0).bind(after).bind(i64::from(limit));
        let found = self.pool.fetch_all(query).await?;
        found.iter().map(ChainedLine::read).collect()
    }

    async fn chained_lines_of_thread(
        &self,
        tenant: TenantPk,
        thread: &ThreadId,
        page: &PageAsk,
    ) -> Result<Page<ChainedLine>> {
        let query = sqlx::query(OF_THREAD).bind(tenant.0).bind(escaped(thread.as_str()));
        let query = query.bind(page.after()?).bind(page.rows());
        page_of_chained_lines(&self.pool.fetch_all(query).await?, page)
    }

    async fn checkpoints(&self, tenant: TenantPk, after: i64, limit: u32) -> Result<Vec<Checkpoint>> {
        let query = sqlx::query(CHECKPOINTS).bind(tenant.0).bind(after).bind(i64::from(limit));
        let found = self.pool.fetch_all(query).await?;
        found.iter().map(Checkpoint::read).collect()
    }

    async fn checkpoint_before(&self, tenant: TenantPk, at: Millis) -> Result<Option<Checkpoint>> {
        let query = sqlx::query(CHECKPOINT_BEFORE).bind(tenant.0).bind(at);
        let found = self.pool.fetch_optional(query).await?;
        found.as_ref().map(Checkpoint::read).transpose()
    }

    async fn first_held_line(&self, tenant: TenantPk) -> Result<Option<i64>> {
        let query = sqlx::query_scalar(FIRST_HELD).bind(tenant.0);
        self.pool.fetch_scalar(query).await
    }
}

#[async_trait]
impl ChainStore for Postgres {
    async fn add_links(&self, new: NewLinks) -> Result<bool> {
        self.pool.with_connection(async |connection| add(connection, &new).await).await
    }

    async fn add_line(&self, line: AuditRow) -> Result<()> {
        self.pool.with_connection(async |connection| audit::insert(connection, &line).await).await
    }

    async fn forget_lines(&self, tenant: TenantPk, upto: i64) -> Result<u64> {
        let query = sqlx::query(FORGET).bind(tenant.0).bind(upto);
        self.pool.execute(query).await
    }
}

async fn add(connection: &mut PgConnection, new: &NewLinks) -> Result<bool> {
    let mut transaction = connection.begin().await.map_err(error)?;
    let is_added = add_in(&mut transaction, new).await?;
    // The lock is released before this returns, so that the next caller can take it.
    let ended = if is_added { transaction.commit().await } else { transaction.rollback().await };
    ended.map_err(error)?;
    Ok(is_added)
}

async fn add_in(transaction: &mut PgConnection, new: &NewLinks) -> Result<bool> {
    let taken = sqlx::query(TAKE).bind(new.tenant.0).fetch_optional(&mut *transaction).await.map_err(error)?;
    let end = sqlx::query(END).bind(new.tenant.0).fetch_optional(&mut *transaction).await.map_err(error)?;
    let end = end.as_ref().map_or_else(|| Ok(ChainEnd::none()), ChainEnd::read)?;
    if taken.is_none() || end.n != new.behind {
        return Ok(false);
    }
    let ids: Vec<i64> = new.links.iter().map(|(id, _)| *id).collect();
    let numbers: Vec<i64> = (new.behind + 1..).take(ids.len()).collect();
    let hashes: Vec<&str> = new.links.iter().map(|(_, hash)| hash.as_str()).collect();
    let link = sqlx::query(LINK).bind(new.tenant.0).bind(&ids).bind(&numbers).bind(&hashes);
    let linked = link.execute(&mut *transaction).await.map_err(error)?.rows_affected();
    if linked != ids.len() as u64 {
        return Ok(false);
    }
    let Checkpoint { n, hash, at, jws } = &new.checkpoint;
    let checkpoint = sqlx::query(CHECKPOINT).bind(new.tenant.0).bind(n).bind(at).bind(hash).bind(jws);
    checkpoint.execute(&mut *transaction).await.map_err(error)?;
    outbox::insert_all(transaction, (ThreadPk::NONE, new.tenant), *at, &new.deliveries).await?;
    Ok(true)
}
