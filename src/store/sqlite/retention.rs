//! Threads and logs that may be too old, and the bases of compacted logs.

use async_trait::async_trait;
use rusqlite::{Params, Transaction, params};
use serde_json::{Value, json};

use super::Sqlite;
use super::erasure::MAX_PER_TRANSACTION;
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::engine::step::RowKind;
use crate::store::log;
use crate::store::{Compaction, Dropped, Result, RetentionReads, RetentionStore, RunEnd};

const AT_REST: &str = "
SELECT updated_at, pk FROM threads
WHERE tenant = ?1 AND updated_at < ?2 AND (updated_at, pk) > (?3, ?4)
    AND status NOT IN ('running', 'suspended', 'waiting')
ORDER BY updated_at, pk LIMIT ?5";

const WITH_TERMS: &str = "SELECT pk, tenant FROM thread_rows WHERE kind = 14 AND pk > ?1 ORDER BY pk LIMIT ?2";

const RUNS_SINCE: &str = "
SELECT ord AS at, id AS run, pk FROM thread_rows
WHERE kind = 12 AND tenant = ?1 AND (ord, id) > (?2, ?3) AND ord < ?4 ORDER BY ord, id LIMIT ?5";

const COMPACTED: &str = "SELECT ended_at AS at, run_id AS run, 0 AS pk FROM compacted WHERE tenant = ?1";

const SET_COMPACTED: &str = "
INSERT INTO compacted (tenant, ended_at, run_id) VALUES (?1, ?2, ?3)
ON CONFLICT (tenant) DO UPDATE SET ended_at = excluded.ended_at, run_id = excluded.run_id";

/// Skips a thread on hold.
const SHORTEN: &str = "
UPDATE threads SET min_seq = ?3 + 1 WHERE pk = ?1 AND min_seq = ?2 AND NOT EXISTS (
    SELECT 1 FROM thread_rows h WHERE h.pk = ?1 AND h.kind = 14 AND h.body ->> '$.hold' IS NOT NULL)";

/// Added to what remains of the entry with that seq.
const LEAVE_UNNAMED: &str = "
INSERT INTO observations (pk, seq, types, body) VALUES (?1, ?2, '', ?3)
ON CONFLICT (pk, seq) DO UPDATE SET body = '[' || body || ',' || excluded.body || ']'";

const SET_BASE: &str = "
INSERT INTO bases (pk, seq, body) VALUES (?1, ?2, ?3)
ON CONFLICT (pk) DO UPDATE SET seq = excluded.seq, body = excluded.body";

const OLD_ENTRIES: &str = "
SELECT seq, body, compressed FROM observations WHERE pk = ?1 AND seq <= ?2 ORDER BY seq LIMIT ?3";

/// Deletable entries, with their sizes.
const ENTRIES: &str = "
SELECT rowid, octet_length(body) + coalesce(octet_length(compressed), 0) FROM observations
WHERE pk = ?1 AND seq <= ?2 AND seq < (SELECT min_seq FROM threads WHERE pk = ?1) ORDER BY seq";

const ROWS: &str = "
SELECT r.rowid, octet_length(r.body) FROM json_each(?2) w CROSS JOIN thread_rows r
ON r.pk = ?1 AND r.kind = w.value ->> 0 AND r.id = w.value ->> 1 WHERE r.keep = 0";

const BELOW_FLOOR: &str = "
SELECT rowid, octet_length(body) FROM thread_rows INDEXED BY rows_kept
WHERE pk = ?1 AND keep = 2 AND ord < (SELECT floor FROM threads WHERE pk = ?1) LIMIT ?2";

const DROP_ENTRIES: &str = "DELETE FROM observations WHERE rowid IN (SELECT value FROM json_each(?1))";

const DROP_ROWS: &str = "DELETE FROM thread_rows WHERE rowid IN (SELECT value FROM json_each(?1))";

#[async_trait]
impl RetentionReads for Sqlite {
    async fn tenants(&self) -> Result<Vec<(TenantPk, String)>> {
        let query = sqlx::query_as("SELECT pk, name FROM tenants ORDER BY name");
        let found: Vec<(i64, String)> = query.fetch_all(&self.readers).await.map_err(self.unreadable())?;
        Ok(found.into_iter().map(|(pk, name)| (TenantPk(pk), name)).collect())
    }

    async fn threads_at_rest(
        &self,
        tenant: TenantPk,
        before: Millis,
        behind: (Millis, ThreadPk),
        limit: u32,
    ) -> Result<Vec<(Millis, ThreadPk)>> {
        let query = sqlx::query_as(AT_REST).bind(tenant.0).bind(before).bind(behind.0).bind(behind.1.0).bind(limit);
        let found: Vec<(i64, i64)> = query.fetch_all(&self.readers).await.map_err(self.unreadable())?;
        Ok(found.into_iter().map(|(at, pk)| (at, ThreadPk(pk))).collect())
    }

    async fn threads_with_terms(&self, behind: ThreadPk, limit: u32) -> Result<Vec<(ThreadPk, TenantPk)>> {
        let query = sqlx::query_as(WITH_TERMS).bind(behind.0).bind(limit);
        let found: Vec<(i64, i64)> = query.fetch_all(&self.readers).await.map_err(self.unreadable())?;
        Ok(found.into_iter().map(|(pk, tenant)| (ThreadPk(pk), TenantPk(tenant))).collect())
    }

    async fn runs_since(&self, tenant: TenantPk, behind: &RunEnd, before: Millis, limit: u32) -> Result<Vec<RunEnd>> {
        let query = sqlx::query(RUNS_SINCE).bind(tenant.0).bind(behind.at).bind(behind.run.as_str());
        let found = query.bind(before).bind(limit).fetch_all(&self.readers).await.map_err(self.unreadable())?;
        found.iter().map(RunEnd::read).collect()
    }

    async fn compacted(&self, tenant: TenantPk) -> Result<RunEnd> {
        let found =
            sqlx::query(COMPACTED).bind(tenant.0).fetch_optional(&self.readers).await.map_err(self.unreadable())?;
        found.as_ref().map_or_else(|| Ok(RunEnd::beginning()), RunEnd::read)
    }

    async fn last_entry(&self, thread: ThreadPk, upto: i64) -> Result<Option<i64>> {
        let query = sqlx::query_scalar("SELECT max(seq) FROM observations WHERE pk = ?1 AND seq <= ?2");
        query.bind(thread.0).bind(upto).fetch_one(&self.readers).await.map_err(self.unreadable())
    }

    async fn old_entries(&self, thread: ThreadPk, upto: i64, limit: u32) -> Result<Vec<(i64, String)>> {
        let query = sqlx::query(OLD_ENTRIES).bind(thread.0).bind(upto).bind(limit);
        query.fetch_all(&self.readers).await.map_err(self.unreadable())?.iter().map(log::old_entry).collect()
    }

    async fn base(&self, thread: ThreadPk) -> Result<Option<(i64, String)>> {
        let query = sqlx::query_as("SELECT seq, body FROM bases WHERE pk = ?1").bind(thread.0);
        query.fetch_optional(&self.readers).await.map_err(self.unreadable())
    }
}

#[async_trait]
impl RetentionStore for Sqlite {
    async fn set_compacted(&self, tenant: TenantPk, upto: &RunEnd) -> Result<()> {
        let RunEnd { at, run, .. } = upto.clone();
        let set =
            move |tx: &Transaction<'_>| tx.prepare_cached(SET_COMPACTED)?.execute(params![tenant.0, at, run.as_str()]);
        self.writer.chore(set).await.map(drop)
    }

    async fn compact(&self, compaction: Compaction) -> Result<bool> {
        self.writer.chore(move |tx| compact(tx, &compaction)).await
    }

    async fn drop_entries(&self, thread: ThreadPk, upto: i64) -> Result<Dropped> {
        self.writer.chore(move |tx| drop_some(tx, ENTRIES, params![thread.0, upto], DROP_ENTRIES)).await
    }

    async fn drop_rows(&self, thread: ThreadPk, rows: Vec<(RowKind, String)>) -> Result<Dropped> {
        self.writer.chore(move |tx| drop_rows(tx, thread, &rows)).await
    }

    async fn drop_below_floor(&self, thread: ThreadPk, limit: u32) -> Result<Dropped> {
        let drop = move |tx: &Transaction<'_>| drop_some(tx, BELOW_FLOOR, params![thread.0, limit], DROP_ROWS);
        let dropped = self.writer.chore(drop).await?;
        Ok(dropped.up_to(limit))
    }
}

fn compact(tx: &Transaction<'_>, compaction: &Compaction) -> rusqlite::Result<bool> {
    let Compaction { thread, min_seq, upto, base, .. } = compaction;
    let moved = tx.prepare_cached(SHORTEN)?.execute(params![thread.0, min_seq, upto])?;
    if moved == 0 {
        return Ok(false);
    }
    tx.prepare_cached(SET_BASE)?.execute(params![thread.0, upto, base])?;
    if let Some(unnamed) = compaction.unnamed_text() {
        tx.prepare_cached(LEAVE_UNNAMED)?.execute(params![thread.0, min_seq - 1, unnamed])?;
    }
    Ok(true)
}

fn drop_rows(tx: &Transaction<'_>, thread: ThreadPk, rows: &[(RowKind, String)]) -> rusqlite::Result<Dropped> {
    let rows = rows.iter().map(|(kind, id)| json!([kind.code(), id])).collect::<Value>().to_string();
    drop_some(tx, ROWS, params![thread.0, rows], DROP_ROWS)
}

/// Deletes as many of the selected rows as fit into a transaction.
fn drop_some(tx: &Transaction<'_>, select: &str, of: impl Params, delete: &str) -> rusqlite::Result<Dropped> {
    let (mut limit, mut select) = (MAX_PER_TRANSACTION, tx.prepare_cached(select)?);
    let mut found = select.query(of)?;
    let rowids = limit.take(&mut found)?;
    let is_more = !limit.has_room() && found.next()?.is_some();
    drop(found);
    if rowids.is_empty() {
        return Ok(Dropped { count: 0, is_more });
    }
    let count = tx.prepare_cached(delete)?.execute([Value::from(rowids).to_string()])?;
    Ok(Dropped { count: u64::try_from(count).expect("it is small"), is_more })
}
