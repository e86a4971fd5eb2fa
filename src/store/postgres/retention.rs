//! Threads and logs that may be too old, and the bases of compacted logs.

use async_trait::async_trait;

use super::Postgres;
use super::nul::{escaped, unescaped};
use super::pool::PgQuery;
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::engine::step::RowKind;
use crate::store::columns::Columns as _;
use crate::store::erasure::BYTES_AT_ONCE;
use crate::store::log;
use crate::store::{Compaction, Dropped, Result, RetentionReads, RetentionStore, RunEnd};

const AT_REST: &str = "
SELECT updated_at, pk FROM threads
WHERE tenant = $1 AND updated_at < $2 AND (updated_at, pk) > ($3, $4)
    AND status NOT IN ('running', 'suspended', 'waiting')
ORDER BY updated_at, pk LIMIT $5";

const WITH_TERMS: &str = "SELECT pk, tenant FROM thread_rows WHERE kind = 14 AND pk > $1 ORDER BY pk LIMIT $2";

const RUNS_SINCE: &str = "
SELECT ord AS at, id AS run, pk FROM thread_rows
WHERE kind = 12 AND tenant = $1 AND (ord, id) > ($2, $3) AND ord < $4 ORDER BY ord, id LIMIT $5";

const COMPACTED: &str = "SELECT ended_at AS at, run_id AS run, 0::bigint AS pk FROM compacted WHERE tenant = $1";

const SET_COMPACTED: &str = "
INSERT INTO compacted (tenant, ended_at, run_id) VALUES ($1, $2, $3)
ON CONFLICT (tenant) DO UPDATE SET ended_at = excluded.ended_at, run_id = excluded.run_id";

/// Skips a thread on hold. Names that nothing refers to any more are added to what remains of the entry with that seq.
const COMPACT: &str = "
WITH moved AS (UPDATE threads SET min_seq = $3 + 1 WHERE pk = $1 AND min_seq = $2 AND NOT EXISTS (
        SELECT FROM thread_rows h WHERE h.pk = $1 AND h.kind = 14 AND h.body::jsonb -> 'hold' IS NOT NULL) RETURNING pk),
    based AS (INSERT INTO bases (pk, seq, body) SELECT pk, $3, $4 FROM moved
        ON CONFLICT (pk) DO UPDATE SET seq = excluded.seq, body = excluded.body),
    unnamed AS (INSERT INTO observations AS o (pk, seq, types, body) SELECT pk, $2 - 1, '', $5 FROM moved
        WHERE $5::text IS NOT NULL
        ON CONFLICT (pk, seq) DO UPDATE SET body = '[' || o.body || ',' || excluded.body || ']')
SELECT count(*) FROM moved";

const OLD_ENTRIES: &str = "
SELECT seq, body, compressed FROM observations WHERE pk = $1 AND seq <= $2 ORDER BY seq LIMIT $3";

/// Deletes some of the found rows, in order, within the byte limit. Concurrent replicas take different rows.
macro_rules! drop_some {
    ($table:literal, $found:literal) => {
        concat!(
            "WITH found AS (",
            $found,
            "), dropped AS (DELETE FROM ",
            $table,
            " WHERE ctid = ANY (ARRAY(
                SELECT place FROM (
                    SELECT place, sum(size) OVER (ROWS UNBOUNDED PRECEDING) - size AS before FROM found) f
                WHERE before < $3)) RETURNING 1)
             SELECT (SELECT count(*) FROM dropped) AS dropped, (SELECT count(*) FROM found) AS found"
        )
    };
}

const DROP_ENTRIES: &str = drop_some!(
    "observations",
    "SELECT o.ctid AS place, pg_column_size(o.body) + coalesce(pg_column_size(o.compressed), 0) AS size
     FROM observations o JOIN threads t ON t.pk = o.pk
     WHERE o.pk = $1 AND o.seq <= $2 AND o.seq < t.min_seq ORDER BY o.seq FOR UPDATE OF o SKIP LOCKED"
);

/// A plain join would read all rows of these kinds of the thread.
const DROP_ROWS: &str = drop_some!(
    "thread_rows",
    "SELECT r.place, r.size FROM unnest($2::smallint[], $4::text[]) w (kind, id) CROSS JOIN LATERAL (
         SELECT d.ctid AS place, pg_column_size(d.body) AS size FROM thread_rows d
         WHERE d.pk = $1 AND d.kind = w.kind AND d.id = w.id AND d.keep = 0 LIMIT 1 FOR UPDATE SKIP LOCKED) r"
);

const DROP_BELOW_FLOOR: &str = drop_some!(
    "thread_rows",
    "SELECT ctid AS place, pg_column_size(body) AS size FROM thread_rows
     WHERE pk = $1 AND keep = 2 AND ord < (SELECT floor FROM threads WHERE pk = $1) LIMIT $2 FOR UPDATE SKIP LOCKED"
);

#[async_trait]
impl RetentionReads for Postgres {
    async fn tenants(&self) -> Result<Vec<(TenantPk, String)>> {
        let query = sqlx::query_as("SELECT pk, name FROM tenants ORDER BY name");
        let found: Vec<(i64, String)> =
            self.pool.with_query(async |connection| query.fetch_all(connection).await).await?;
        Ok(found.into_iter().map(|(pk, name)| (TenantPk(pk), unescaped(name))).collect())
    }

    async fn threads_at_rest(
        &self,
        tenant: TenantPk,
        before: Millis,
        behind: (Millis, ThreadPk),
        limit: u32,
    ) -> Result<Vec<(Millis, ThreadPk)>> {
        let query = sqlx::query_as(AT_REST).bind(tenant.0).bind(before).bind(behind.0).bind(behind.1.0);
        let query = query.bind(i64::from(limit));
        let found: Vec<(i64, i64)> = self.pool.with_query(async |connection| query.fetch_all(connection).await).await?;
        Ok(found.into_iter().map(|(at, pk)| (at, ThreadPk(pk))).collect())
    }

    async fn threads_with_terms(&self, behind: ThreadPk, limit: u32) -> Result<Vec<(ThreadPk, TenantPk)>> {
        let query = sqlx::query_as(WITH_TERMS).bind(behind.0).bind(i64::from(limit));
        let found: Vec<(i64, i64)> = self.pool.with_query(async |connection| query.fetch_all(connection).await).await?;
        Ok(found.into_iter().map(|(pk, tenant)| (ThreadPk(pk), TenantPk(tenant))).collect())
    }

    async fn runs_since(&self, tenant: TenantPk, behind: &RunEnd, before: Millis, limit: u32) -> Result<Vec<RunEnd>> {
        let query = sqlx::query(RUNS_SINCE).bind(tenant.0).bind(behind.at).bind(escaped(behind.run.as_str()));
        let query = query.bind(before).bind(i64::from(limit));
        let found = self.pool.fetch_all(query).await?;
        found.iter().map(RunEnd::read).collect()
    }

    async fn compacted(&self, tenant: TenantPk) -> Result<RunEnd> {
        let query = sqlx::query(COMPACTED).bind(tenant.0);
        let found = self.pool.fetch_optional(query).await?;
        found.as_ref().map_or_else(|| Ok(RunEnd::beginning()), RunEnd::read)
    }

    async fn last_entry(&self, thread: ThreadPk, upto: i64) -> Result<Option<i64>> {
        let query = sqlx::query_scalar("SELECT max(seq) FROM observations WHERE pk = $1 AND seq <= $2");
        let query = query.bind(thread.0).bind(upto);
        self.pool.fetch_scalar(query).await
    }

    async fn old_entries(&self, thread: ThreadPk, upto: i64, limit: u32) -> Result<Vec<(i64, String)>> {
        let query = sqlx::query(OLD_ENTRIES).bind(thread.0).bind(upto).bind(i64::from(limit));
        self.pool.fetch_all(query).await?.iter().map(log::old_entry).collect()
    }

    async fn base(&self, thread: ThreadPk) -> Result<Option<(i64, String)>> {
        let query = sqlx::query_as("SELECT seq, body FROM bases WHERE pk = $1").bind(thread.0);
        self.pool.with_query(async |connection| query.fetch_optional(connection).await).await
    }
}

#[async_trait]
impl RetentionStore for Postgres {
    async fn set_compacted(&self, tenant: TenantPk, upto: &RunEnd) -> Result<()> {
        let query = sqlx::query(SET_COMPACTED).bind(tenant.0).bind(upto.at).bind(escaped(upto.run.as_str()));
        self.pool.execute(query).await.map(drop)
    }

    async fn compact(&self, compaction: Compaction) -> Result<bool> {
        let unnamed = compaction.unnamed_text();
        let Compaction { thread, min_seq, upto, base, .. } = compaction;
        let query = sqlx::query_scalar(COMPACT).bind(thread.0).bind(min_seq).bind(upto).bind(base);
        let query = query.bind(unnamed);
        let moved: i64 = self.pool.fetch_scalar(query).await?;
        Ok(moved > 0)
    }

    async fn drop_entries(&self, thread: ThreadPk, upto: i64) -> Result<Dropped> {
        self.drop_some(sqlx::query(DROP_ENTRIES).bind(thread.0).bind(upto).bind(BYTES_AT_ONCE)).await
    }

    async fn drop_rows(&self, thread: ThreadPk, rows: Vec<(RowKind, String)>) -> Result<Dropped> {
        let (kinds, ids) = columns(rows);
        self.drop_some(sqlx::query(DROP_ROWS).bind(thread.0).bind(kinds).bind(BYTES_AT_ONCE).bind(ids)).await
    }

    async fn drop_below_floor(&self, thread: ThreadPk, limit: u32) -> Result<Dropped> {
        let drop = sqlx::query(DROP_BELOW_FLOOR).bind(thread.0).bind(i64::from(limit)).bind(BYTES_AT_ONCE);
        Ok(self.drop_some(drop).await?.up_to(limit))
    }
}

impl Postgres {
    async fn drop_some(&self, drop: PgQuery<'_>) -> Result<Dropped> {
        let done = self.pool.fetch_one(drop).await?;
        let (count, found) = (done.count("dropped")?, done.count("found")?);
        Ok(Dropped { count, is_more: count < found })
    }
}

/// The arrays that are sent.
fn columns(rows: Vec<(RowKind, String)>) -> (Vec<i16>, Vec<String>) {
    rows.into_iter().map(|(kind, id)| (kind.code(), escaped(&id).into_owned())).unzip()
}
