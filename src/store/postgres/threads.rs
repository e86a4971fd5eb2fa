//! Threads: read one, read it with its rows, list them, delete one.

use std::collections::HashMap;

use async_trait::async_trait;
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::fault::error;
use super::nul::{escaped, unescaped};
use super::{Postgres, erasure, keys_of};
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadId, ThreadPk};
use crate::engine::step::Row;
use crate::store::page::within_bytes;
use crate::store::threads::{last_known, page_of_threads, read_title, threads_before};
use crate::store::{
    Commit, Committed, EndedCost, Erasure, MAX_SCANNED, Outline, Page, PageAsk, RecentThread, Result, RunCosts,
    ThreadFilter, ThreadReads, ThreadRow, ThreadStore, ThreadVersion, text,
};

macro_rules! select {
    ($what:literal, $($rest:tt)*) => {
        concat!(
            "SELECT t.pk, t.tenant, t.thread_id, t.epoch, t.lease, t.version, t.replica, t.core, t.head, t.status, \
             t.sheet, t.wake_at, t.floor, t.last_seq, t.min_seq, t.created_at, t.updated_at, t.created_by, \
             EXISTS (SELECT FROM replicas o WHERE o.id = t.replica) AS is_owned, c.times, c.attributed, c.among",
            $what,
            " FROM threads t CROSS JOIN LATERAL (SELECT count(*) AS times, \
             count(*) FILTER (WHERE in_hand = 1) AS attributed, coalesce(min(in_hand), 0) AS among \
             FROM crashes WHERE crashes.pk = t.pk) c ",
            $($rest)*
        )
    };
}

const NAMED: &str = select!("", "WHERE t.tenant = $1 AND t.thread_id = $2");

const BY_PK: &str = select!("", "WHERE t.pk = $1");

const BY_PKS: &str = select!("", "WHERE t.pk = ANY($1)");

/// One statement reads one snapshot. Rows below the floor are not read.
const LOAD: &str = select!(
    ", r.kinds, r.ids, r.ords, r.keeps, r.bodies",
    "CROSS JOIN LATERAL (
        SELECT array_agg(kind) AS kinds, array_agg(id) AS ids, array_agg(ord) AS ords, array_agg(keep) AS keeps,
            array_agg(body) AS bodies
        FROM (
            SELECT * FROM (
                SELECT kind, id, ord, keep, body FROM thread_rows WHERE pk = t.pk AND keep = 1
                UNION ALL
                SELECT kind, id, ord, keep, body FROM thread_rows WHERE pk = t.pk AND keep = 2 AND ord >= t.floor
            ) kept ORDER BY kind, ord, id
        ) sorted
    ) r
    WHERE t.pk = $1"
);

const OUTLINES: &str = "
SELECT t.pk, i.items, p.statuses, s.questions, l.id AS run, l.run ->> 'status' AS run_status,
    l.run -> 'outcome' ->> 'status' AS run_result, left(l.run ->> 'query', 200) AS query
FROM threads t
CROSS JOIN LATERAL (SELECT count(*) AS items FROM thread_rows r WHERE r.pk = t.pk AND r.kind = 3 AND r.keep = 1) i
CROSS JOIN LATERAL (
    SELECT string_agg(pes_json(r.body) ->> 'status', ',') AS statuses
    FROM thread_rows r WHERE r.pk = t.pk AND r.kind = 10 AND r.keep = 1
) p
CROSS JOIN LATERAL (SELECT count(*) AS questions FROM thread_rows r WHERE r.pk = t.pk AND r.kind = 6 AND r.keep = 1) s
LEFT JOIN LATERAL (
    SELECT r.id, pes_json(r.body) AS run FROM thread_rows r WHERE r.pk = t.pk AND r.kind = 1 AND r.kind <= 2
    ORDER BY r.ord DESC, r.id DESC LIMIT 1
) l ON true
WHERE t.pk = ANY($1)";

/// `OFFSET 0`, so that what is asked of each thread is found out once, and not for each of its runs.
const RUN_COSTS: &str = "
SELECT t.pk, k.known, c.ended_cost, c.rest_cost, c.last_ord, (
    SELECT r.id FROM thread_rows r
    WHERE r.pk = t.pk AND r.kind = 1 AND r.kind <= 2 AND r.ord = c.last_ord ORDER BY r.id LIMIT 1
) AS last_run
FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS w (pk, ord, run) JOIN threads t ON t.pk = w.pk
CROSS JOIN LATERAL (
    SELECT (SELECT r.ord FROM thread_rows r WHERE r.pk = t.pk AND r.kind = 1 AND r.id = w.run AND r.ord = w.ord AND r.keep <> 1)
            AS known,
        (SELECT min(r.ord) FROM thread_rows r WHERE r.pk = t.pk AND r.kind = 1 AND r.keep = 1) AS open
    OFFSET 0
) k
CROSS JOIN LATERAL (
    SELECT (sum(r.cost) FILTER (WHERE k.open IS NULL OR r.ord < k.open))::bigint AS ended_cost,
        (sum(r.cost) FILTER (WHERE r.ord >= k.open))::bigint AS rest_cost,
        max(r.ord) FILTER (WHERE k.open IS NULL OR r.ord < k.open) AS last_ord
    FROM (
        SELECT o.ord, (pes_json(o.body) -> 'counters' ->> 'costNanos')::bigint AS cost FROM thread_rows o
        WHERE o.pk = t.pk AND o.kind = 1 AND o.kind <= 2 AND o.ord > coalesce(k.known, -1)
    ) r
) c";

const RECENT: &str = "
SELECT pk, thread_id, version FROM threads WHERE tenant = $1 AND updated_at >= $2
UNION SELECT pk, thread_id, version FROM threads WHERE status = 'running' AND tenant = $1";

/// One search of the index for each tenant.
const NEWEST: &str = "
SELECT max(newest.updated_at) FROM tenants n
CROSS JOIN LATERAL (
    SELECT updated_at FROM threads t WHERE t.tenant = n.pk AND t.updated_at <= $1 ORDER BY updated_at DESC LIMIT 1
) newest";

const TITLES: &str = "SELECT pk, sheet FROM threads WHERE pk = ANY($1)";

/// The last thread that is scanned for the page that begins after this one.
const LAST: &str = "
SELECT updated_at, pk FROM threads WHERE tenant = $1 AND (updated_at, pk) < ($2, $3)
ORDER BY updated_at DESC, pk DESC LIMIT 1 OFFSET $4";

macro_rules! listed {
    () => {
        "WHERE t.tenant = $1 AND (t.updated_at, t.pk) < ($2, $3) AND (t.updated_at, t.pk) >= ($7, $8)
            AND ($4::text IS NULL OR t.status = $4)
            AND ($5::text IS NULL OR strpos(lower(t.thread_id), $5) > 0 OR strpos(t.title, $5) > 0)
            AND ($9::text IS NULL OR $9 = (
                SELECT pes_json(r.body) -> 'outcome' ->> 'status' FROM thread_rows r
                WHERE r.pk = t.pk AND r.kind = 1 AND r.kind <= 2 ORDER BY r.ord DESC, r.id DESC LIMIT 1))
        ORDER BY t.updated_at DESC, t.pk DESC LIMIT $6"
    };
}

const LIST: &str = select!("", listed!());

const SIZES: &str =
    concat!("SELECT (octet_length(t.sheet) + octet_length(t.head))::bigint AS bytes FROM threads t ", listed!());

const VERSIONS: &str = "SELECT pk, version, min_seq, last_seq FROM threads WHERE pk = ANY($1)";

#[async_trait]
impl ThreadReads for Postgres {
    async fn thread(&self, tenant: TenantPk, id: &ThreadId) -> Result<Option<ThreadRow>> {
        let query = sqlx::query(NAMED).bind(tenant.0).bind(escaped(id.as_str()));
        let found = self.pool.fetch_optional(query).await?;
        found.as_ref().map(ThreadRow::read).transpose()
    }

    async fn thread_by_pk(&self, pk: ThreadPk) -> Result<Option<ThreadRow>> {
        let found = self.pool.fetch_optional(sqlx::query(BY_PK).bind(pk.0)).await?;
        found.as_ref().map(ThreadRow::read).transpose()
    }

    async fn threads_by_pk(&self, pks: &[ThreadPk]) -> Result<Vec<ThreadRow>> {
        let found = self.pool.fetch_all(sqlx::query(BY_PKS).bind(keys_of(pks))).await?;
        found.iter().map(ThreadRow::read).collect()
    }

    async fn load(&self, pk: ThreadPk) -> Result<Option<(ThreadRow, Vec<Row>)>> {
        let found = self.pool.fetch_optional(sqlx::query(LOAD).bind(pk.0)).await?;
        found.map(|found| Ok((ThreadRow::read(&found)?, loaded(&found)?))).transpose()
    }

    async fn thread_versions(&self, pks: &[ThreadPk]) -> Result<Vec<ThreadVersion>> {
        let found = self.pool.fetch_all(sqlx::query(VERSIONS).bind(keys_of(pks))).await?;
        found.iter().map(ThreadVersion::read).collect()
    }

    async fn recent_threads(&self, tenant: TenantPk, since: Millis) -> Result<Vec<RecentThread>> {
        let query = sqlx::query(RECENT).bind(tenant.0).bind(since);
        let found = self.pool.fetch_all(query).await?;
        found.iter().map(RecentThread::read).collect()
    }

    async fn newest_activity(&self, until: Millis) -> Result<Option<Millis>> {
        self.pool.fetch_scalar(sqlx::query_scalar(NEWEST).bind(until)).await
    }

    async fn outlines(&self, pks: &[ThreadPk]) -> Result<Vec<Outline>> {
        let found = self.pool.fetch_all(sqlx::query(OUTLINES).bind(keys_of(pks))).await?;
        found.iter().map(Outline::read).collect()
    }

    async fn run_costs(&self, pks: &[ThreadPk], known: &HashMap<ThreadPk, EndedCost>) -> Result<Vec<RunCosts>> {
        let (mut threads, mut ords, mut runs) = (Vec::new(), Vec::new(), Vec::new());
        for (pk, ord, run) in last_known(pks, known) {
            threads.push(pk);
            ords.push(ord);
            runs.push(run);
        }
        let found = self.pool.fetch_all(sqlx::query(RUN_COSTS).bind(threads).bind(ords).bind(runs)).await?;
        found.iter().map(|row| RunCosts::read(row, known)).collect()
    }

    async fn titles(&self, pks: &[ThreadPk]) -> Result<Vec<(ThreadPk, String)>> {
        let found = self.pool.fetch_all(sqlx::query(TITLES).bind(keys_of(pks))).await?;
        found.iter().filter_map(|row| read_title(row).transpose()).collect()
    }

    async fn threads(&self, tenant: TenantPk, filter: &ThreadFilter, ask: &PageAsk) -> Result<Page<ThreadRow>> {
        let (at, pk) = threads_before(ask)?;
        let last: Option<(i64, i64)> = if filter.is_narrow() {
            let query = sqlx::query_as(LAST).bind(tenant.0).bind(at).bind(pk).bind(i64::from(MAX_SCANNED) - 1);
            self.pool.with_query(async |connection| query.fetch_optional(connection).await).await?
        } else {
            None
        };
        let (last_at, last_pk) = last.unwrap_or((i64::MIN, i64::MIN));
        let (status, q) = (filter.status.map(|status| status.as_str()), filter.q.as_deref().map(text::folded));
        let listed = |sql: &'static str, rows: i64| {
            let query = sqlx::query(sql).bind(tenant.0).bind(at).bind(pk).bind(status).bind(q.clone()).bind(rows);
            query.bind(last_at).bind(last_pk).bind(filter.result.map(|result| result.as_str()))
        };
        let query = listed(SIZES, ask.rows());
        let sizes = self.pool.fetch_all(query).await?;
        let ask = within_bytes(ask, &sizes)?;
        let query = listed(LIST, ask.rows());
        let found = self.pool.fetch_all(query).await?;
        page_of_threads(&found, &ask, last)
    }
}

#[async_trait]
impl ThreadStore for Postgres {
    async fn commit(&self, commit: Commit) -> Result<Committed> {
        self.committer.commit(commit).await
    }

    async fn delete_thread(&self, gone: Erasure) -> Result<bool> {
        self.pool.with_connection(async |connection| erasure::erase(connection, &gone).await).await
    }
}

/// Reads the rows of a thread from arrays of columns, which are NULL if there are none.
fn loaded(found: &PgRow) -> Result<Vec<Row>> {
    let Some(kinds) = found.try_get::<Option<Vec<i16>>, _>("kinds").map_err(error)? else { return Ok(Vec::new()) };
    let ids: Vec<String> = found.try_get("ids").map_err(error)?;
    let ords: Vec<i64> = found.try_get("ords").map_err(error)?;
    let keeps: Vec<i16> = found.try_get("keeps").map_err(error)?;
    let bodies: Vec<String> = found.try_get("bodies").map_err(error)?;
    let columns = kinds.into_iter().zip(ids).zip(ords).zip(keeps).zip(bodies);
    let known = |((((kind, id), ord), keep), body)| text::known_row(kind, unescaped(id), ord, keep, body);
    columns.filter_map(known).collect()
}
