//! The chain of audit lines.

use async_trait::async_trait;
use rusqlite::{OptionalExtension, Transaction, params};

use super::{Sqlite, audit, outbox};
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadId, ThreadPk};
use crate::store::chain::page_of_chained_lines;
use crate::store::{
    AuditRow, ChainEnd, ChainReads, ChainStore, ChainedLine, Checkpoint, NewLinks, Page, PageAsk, Result, UnchainedLine,
};

const TENANTS: &str = "SELECT DISTINCT tenant FROM audit INDEXED BY audit_unchained WHERE n IS NULL";

const MISSING: &str = "
SELECT tenant FROM (
    SELECT tenant FROM audit INDEXED BY audit_chain WHERE n IS NOT NULL
    UNION
    SELECT tenant FROM audit INDEXED BY audit_unchained WHERE n IS NULL
    UNION
    SELECT tenant FROM audit_checkpoints)
WHERE tenant NOT IN (SELECT pk FROM tenants) ORDER BY tenant";

const UNCHAINED: &str = "
SELECT rowid AS id, pk, tenant, thread_id, at, actor, action, detail FROM audit INDEXED BY audit_unchained
WHERE tenant = ? AND n IS NULL ORDER BY rowid LIMIT ?";

/// The end by both lines and checkpoints: if some of either were removed, the others still show it.
const END: &str = "
SELECT n, hash, jws FROM (
    SELECT * FROM (SELECT n, hash, jws, 1 AS is_checkpoint FROM audit_checkpoints WHERE tenant = ?1 ORDER BY n DESC LIMIT 1)
    UNION ALL
    SELECT * FROM (
        SELECT n, hash, NULL, 0 FROM audit INDEXED BY audit_chain
        WHERE tenant = ?1 AND n IS NOT NULL ORDER BY n DESC LIMIT 1))
ORDER BY n DESC, is_checkpoint DESC LIMIT 1";

const IS_UNCHAINED: &str = "SELECT 1 FROM audit WHERE rowid = ?1 AND tenant = ?2 AND n IS NULL";

const LINK: &str = "UPDATE audit SET n = ?2, hash = ?3 WHERE rowid = ?1";

const CHECKPOINT: &str = "
INSERT INTO audit_checkpoints (tenant, n, at, hash, jws) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (tenant, n) DO UPDATE SET at = excluded.at, hash = excluded.hash, jws = excluded.jws";

const CHAINED: &str = "
SELECT n, hash, pk, tenant, thread_id, at, actor, action, detail FROM audit INDEXED BY audit_chain
WHERE tenant = ? AND n > ? ORDER BY n LIMIT ?";

const OF_THREAD: &str = "
SELECT rowid AS id, n, hash, pk, tenant, thread_id, at, actor, action, detail FROM audit INDEXED BY audit_of_thread
WHERE tenant = ? AND thread_id = ? AND n IS NOT NULL AND rowid > ? ORDER BY rowid LIMIT ?";

const CHECKPOINTS: &str =
    "SELECT n, hash, at, jws FROM audit_checkpoints WHERE tenant = ? AND n > ? ORDER BY n LIMIT ?";

/// Clocks are set: a checkpoint with a higher number may have an earlier time.
const CHECKPOINT_BEFORE: &str = "
SELECT n, hash, at, jws FROM audit_checkpoints
WHERE tenant = ?1 AND n < coalesce(
    (SELECT n FROM audit_checkpoints WHERE tenant = ?1 AND at >= ?2 ORDER BY n LIMIT 1), 9223372036854775807)
ORDER BY n DESC LIMIT 1";

/// Terms that cannot be read may contain a hold.
const FIRST_HELD: &str = "
SELECT min(a.n) FROM thread_rows h
CROSS JOIN threads t ON t.pk = h.pk
CROSS JOIN audit a INDEXED BY audit_of_thread ON a.tenant = t.tenant AND a.thread_id = t.thread_id
WHERE h.kind = 14 AND h.tenant = ?1 AND t.tenant = ?1 AND a.n IS NOT NULL
    AND CASE WHEN json_valid(h.body) THEN h.body ->> '$.hold' IS NOT NULL ELSE 1 END";

#[async_trait]
impl ChainReads for Sqlite {
    async fn tenants_to_chain(&self) -> Result<Vec<TenantPk>> {
        let found: Vec<i64> = sqlx::query_scalar(TENANTS).fetch_all(&self.readers).await.map_err(self.unreadable())?;
        Ok(found.into_iter().map(TenantPk).collect())
    }

    async fn tenants_missing(&self) -> Result<Vec<TenantPk>> {
        let found: Vec<i64> = sqlx::query_scalar(MISSING).fetch_all(&self.readers).await.map_err(self.unreadable())?;
        Ok(found.into_iter().map(TenantPk).collect())
    }

    async fn unchained_lines(&self, tenant: TenantPk, limit: u32) -> Result<Vec<UnchainedLine>> {
        let query = sqlx::query(UNCHAINED).bind(tenant.0).bind(limit);
        query.fetch_all(&self.readers).await.map_err(self.unreadable())?.iter().map(UnchainedLine::read).collect()
    }

    async fn chain_end(&self, tenant: TenantPk) -> Result<ChainEnd> {
        let found = sqlx::query(END).bind(tenant.0).fetch_optional(&self.readers).await.map_err(self.unreadable())?;
        found.as_ref().map_or_else(|| Ok(ChainEnd::none()), ChainEnd::read)
    }

    async fn chained_lines(&self, tenant: TenantPk, after: i64, limit: u32) -> Result<Vec<ChainedLine>> {
        let query = sqlx::query(CHAINED).bind(tenant.0).bind(after).bind(limit);
        query.fetch_all(&self.readers).await.map_err(self.unreadable())?.iter().map(ChainedLine::read).collect()
    }

    async fn chained_lines_of_thread(
        &self,
        tenant: TenantPk,
        thread: &ThreadId,
        page: &PageAsk,
    ) -> Result<Page<ChainedLine>> {
        let query = sqlx::query(OF_THREAD).bind(tenant.0).bind(thread.as_str()).bind(page.after()?).bind(page.rows());
        page_of_chained_lines(&query.fetch_all(&self.readers).await.map_err(self.unreadable())?, page)
    }

    async fn checkpoints(&self, tenant: TenantPk, after: i64, limit: u32) -> Result<Vec<Checkpoint>> {
        let query = sqlx::query(CHECKPOINTS).bind(tenant.0).bind(after).bind(limit);
        query.fetch_all(&self.readers).await.map_err(self.unreadable())?.iter().map(Checkpoint::read).collect()
    }

    async fn checkpoint_before(&self, tenant: TenantPk, at: Millis) -> Result<Option<Checkpoint>> {
        let query = sqlx::query(CHECKPOINT_BEFORE).bind(tenant.0).bind(at);
        query.fetch_optional(&self.readers).await.map_err(self.unreadable())?.as_ref().map(Checkpoint::read).transpose()
    }

    async fn first_held_line(&self, tenant: TenantPk) -> Result<Option<i64>> {
        sqlx::query_scalar(FIRST_HELD).bind(tenant.0).fetch_one(&self.readers).await.map_err(self.unreadable())
    }
}

#[async_trait]
impl ChainStore for Sqlite {
    async fn add_links(&self, new: NewLinks) -> Result<bool> {
        let is_chore = new.is_chore;
        let add = move |tx: &Transaction<'_>| add(tx, &new);
        if is_chore { self.writer.chore(add).await } else { self.writer.write(add).await }
    }

    async fn add_line(&self, line: AuditRow) -> Result<()> {
        self.writer.write(move |tx| audit::insert(tx, &line)).await
    }

    async fn forget_lines(&self, tenant: TenantPk, upto: i64) -> Result<u64> {
        let forget = move |tx: &Transaction<'_>| {
            tx.execute("DELETE FROM audit_checkpoints WHERE tenant = ?1 AND n < ?2", [tenant.0, upto])?;
            tx.execute("DELETE FROM audit WHERE tenant = ?1 AND n <= ?2", [tenant.0, upto])
        };
        Ok(self.writer.chore(forget).await? as u64)
    }
}

/// No other connection writes, so what was read holds until this commits.
fn add(tx: &Transaction<'_>, new: &NewLinks) -> rusqlite::Result<bool> {
    let end: Option<i64> = tx.prepare_cached(END)?.query_row([new.tenant.0], |row| row.get(0)).optional()?;
    if end.unwrap_or(0) != new.behind {
        return Ok(false);
    }
    for (id, _) in &new.links {
        if !tx.prepare_cached(IS_UNCHAINED)?.exists([*id, new.tenant.0])? {
            return Ok(false);
        }
    }
    for (n, (id, hash)) in (new.behind + 1..).zip(&new.links) {
        tx.prepare_cached(LINK)?.execute(params![id, n, hash])?;
    }
    let Checkpoint { n, hash, at, jws } = &new.checkpoint;
    tx.prepare_cached(CHECKPOINT)?.execute(params![new.tenant.0, n, at, hash, jws])?;
    for delivery in &new.deliveries {
        outbox::insert(tx, ThreadPk::NONE, new.tenant.0, delivery, *at)?;
    }
    Ok(true)
}
