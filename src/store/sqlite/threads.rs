//! Threads: read one, list a page of them, delete one.

use std::collections::HashMap;

use async_trait::async_trait;
use rusqlite::Transaction;
use serde_json::json;

use super::{Sqlite, erasure, keys_of, rows};
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadId, ThreadPk};
use crate::engine::step::Row;
use crate::store::page::within_bytes;
use crate::store::rows::read_known_rows;
use crate::store::threads::{last_known, page_of_threads, read_title, threads_before};
use crate::store::{
    Commit, Committed, EndedCost, Erasure, MAX_SCANNED, Outline, Page, PageAsk, RecentThread, Result, RunCosts,
    ThreadFilter, ThreadReads, ThreadRow, ThreadStore, ThreadVersion, text,
};

macro_rules! select_thread {
    ($($rest:tt)*) => {
        concat!(
            "SELECT pk, tenant, thread_id, core, version, epoch, lease, replica, status, wake_at, floor, last_seq, \
             min_seq, created_at, updated_at, created_by, sheet, head, \
             EXISTS (SELECT 1 FROM replicas o WHERE o.id = t.replica) AS is_owned, ",
            super::leases::crashes!(),
            " FROM threads t ",
            $($rest)*
        )
    };
}

const NAMED: &str = select_thread!("WHERE tenant = ? AND thread_id = ?");

const BY_PK: &str = select_thread!("WHERE pk = ?");

const BY_PKS: &str = select_thread!("WHERE pk IN (SELECT value FROM json_each(?))");

const VERSIONS: &str =
    "SELECT pk, version, min_seq, last_seq FROM threads WHERE pk IN (SELECT value FROM json_each(?))";

/// A member of a row's body, or NULL if the body cannot be read, so that it is not counted.
macro_rules! member {
    ($row:literal, $path:literal) => {
        concat!("iif(json_valid(", $row, ".body), ", $row, ".body ->> '", $path, "', NULL)")
    };
}

const OUTLINES: &str = concat!(
    "SELECT t.pk,
        (SELECT count(*) FROM thread_rows r WHERE r.pk = t.pk AND r.kind = 3 AND r.keep = 1) AS items,
        (SELECT group_concat(",
    member!("r", "status"),
    ") FROM thread_rows r WHERE r.pk = t.pk AND r.kind = 10 AND r.keep = 1) AS statuses,
        (SELECT count(*) FROM thread_rows r WHERE r.pk = t.pk AND r.kind = 6 AND r.keep = 1) AS questions,
        l.id AS run, ",
    member!("l", "status"),
    " AS run_status, ",
    member!("l", "$.outcome.status"),
    " AS run_result, substr(",
    member!("l", "query"),
    ", 1, 200) AS query
    FROM json_each(?) w CROSS JOIN threads t ON t.pk = w.value
    LEFT JOIN thread_rows l ON l.rowid = (
        SELECT rowid FROM thread_rows r WHERE r.pk = t.pk AND r.kind = 1 ORDER BY r.ord DESC, r.id DESC LIMIT 1)"
);

/// `MATERIALIZED`, so that what is asked of each thread is found out once, and not for each of its runs. The sums are one value,
/// because a join would sort the runs with their bodies.
pub(super) const RUN_COSTS: &str = concat!(
    "WITH asked AS MATERIALIZED (
        SELECT t.pk,
            (SELECT r.ord FROM thread_rows r
                WHERE r.pk = t.pk AND r.kind = 1 AND r.id = w.value ->> 2 AND r.ord = w.value ->> 1 AND r.keep <> 1)
                AS known,
            (SELECT min(r.ord) FROM thread_rows r INDEXED BY rows_running
                WHERE r.pk = t.pk AND r.kind = 1 AND r.keep = 1) AS open
        FROM json_each(?) w CROSS JOIN threads t ON t.pk = w.value ->> 0),
    costs AS MATERIALIZED (
        SELECT a.pk, a.known, (SELECT json_array(sum(iif(a.open IS NULL OR r.ord < a.open, ",
    member!("r", "$.counters.costNanos"),
    ", NULL)), sum(iif(r.ord >= a.open, ",
    member!("r", "$.counters.costNanos"),
    ", NULL)), max(iif(a.open IS NULL OR r.ord < a.open, r.ord, NULL)))
            FROM thread_rows r WHERE r.pk = a.pk AND r.kind = 1 AND r.ord > coalesce(a.known, -1)) AS sums
        FROM asked a)
    SELECT pk, known, sums ->> 0 AS ended_cost, sums ->> 1 AS rest_cost, sums ->> 2 AS last_ord, (
        SELECT r.id FROM thread_rows r WHERE r.pk = c.pk AND r.kind = 1 AND r.ord = c.sums ->> 2 ORDER BY r.id LIMIT 1
    ) AS last_run FROM costs c"
);

/// `+` on the column, so that running threads are found by the short index threads_running, and not by an index of the
/// tenant.
pub(super) const RECENT: &str = "
SELECT pk, thread_id, version FROM threads WHERE tenant = ?1 AND updated_at >= ?2
UNION SELECT pk, thread_id, version FROM threads WHERE status = 'running' AND +tenant = ?1";

/// One search of the index for each tenant.
pub(super) const NEWEST: &str = "
SELECT max((
    SELECT updated_at FROM threads WHERE tenant = tenants.pk AND updated_at <= ?1 ORDER BY updated_at DESC LIMIT 1
)) FROM tenants";

const TITLES: &str = "SELECT pk, sheet FROM threads WHERE pk IN (SELECT value FROM json_each(?))";

/// The last thread that is scanned for the page that begins after this one.
const LAST: &str = "
SELECT updated_at, pk FROM threads WHERE tenant = ?1 AND (updated_at, pk) < (?2, ?3)
ORDER BY updated_at DESC, pk DESC LIMIT 1 OFFSET ?4";

macro_rules! listed {
    () => {
        concat!(
            "WHERE tenant = ?1 AND (updated_at, pk) < (?2, ?3) AND (updated_at, pk) >= (?7, ?8)
             AND (?4 IS NULL OR status = ?4)
             AND (?5 IS NULL OR instr(title, ?5) > 0 OR instr(lower(thread_id), ?5) > 0)
             AND (?9 IS NULL OR ?9 = (SELECT ",
            member!("l", "$.outcome.status"),
            " FROM thread_rows l WHERE l.pk = t.pk AND l.kind = 1 ORDER BY l.ord DESC, l.id DESC LIMIT 1))
             ORDER BY updated_at DESC, pk DESC LIMIT ?6"
        )
    };
}

const LIST: &str = select_thread!(listed!());

const SIZES: &str = concat!("SELECT octet_length(sheet) + octet_length(head) AS bytes FROM threads t ", listed!());

#[async_trait]
impl ThreadReads for Sqlite {
    async fn thread(&self, tenant: TenantPk, id: &ThreadId) -> Result<Option<ThreadRow>> {
        let query = sqlx::query(NAMED).bind(tenant.0).bind(id.as_str());
        let found = query.fetch_optional(&self.readers).await.map_err(self.unreadable())?;
        found.as_ref().map(ThreadRow::read).transpose()
    }

    async fn thread_by_pk(&self, pk: ThreadPk) -> Result<Option<ThreadRow>> {
        let found = sqlx::query(BY_PK).bind(pk.0).fetch_optional(&self.readers).await.map_err(self.unreadable())?;
        found.as_ref().map(ThreadRow::read).transpose()
    }

    async fn threads_by_pk(&self, pks: &[ThreadPk]) -> Result<Vec<ThreadRow>> {
        let found = sqlx::query(BY_PKS).bind(keys_of(pks)).fetch_all(&self.readers).await.map_err(self.unreadable())?;
        found.iter().map(ThreadRow::read).collect()
    }

    async fn load(&self, pk: ThreadPk) -> Result<Option<(ThreadRow, Vec<Row>)>> {
        let mut snapshot = self.readers.begin().await.map_err(self.unreadable())?;
        let found = sqlx::query(BY_PK).bind(pk.0).fetch_optional(&mut *snapshot).await.map_err(self.unreadable())?;
        let Some(found) = found else { return Ok(None) };
        let thread = ThreadRow::read(&found)?;
        let rows = rows::loaded_rows(&mut *snapshot, pk, thread.floor).await.map_err(self.unreadable())?;
        Ok(Some((thread, read_known_rows(&rows)?)))
    }

    async fn thread_versions(&self, pks: &[ThreadPk]) -> Result<Vec<ThreadVersion>> {
        let found =
            sqlx::query(VERSIONS).bind(keys_of(pks)).fetch_all(&self.readers).await.map_err(self.unreadable())?;
        found.iter().map(ThreadVersion::read).collect()
    }

    async fn recent_threads(&self, tenant: TenantPk, since: Millis) -> Result<Vec<RecentThread>> {
        let query = sqlx::query(RECENT).bind(tenant.0).bind(since);
        let found = query.fetch_all(&self.readers).await.map_err(self.unreadable())?;
        found.iter().map(RecentThread::read).collect()
    }

    async fn newest_activity(&self, until: Millis) -> Result<Option<Millis>> {
        sqlx::query_scalar(NEWEST).bind(until).fetch_one(&self.readers).await.map_err(self.unreadable())
    }

    async fn outlines(&self, pks: &[ThreadPk]) -> Result<Vec<Outline>> {
        let found =
            sqlx::query(OUTLINES).bind(keys_of(pks)).fetch_all(&self.readers).await.map_err(self.unreadable())?;
        found.iter().map(Outline::read).collect()
    }

    async fn run_costs(&self, pks: &[ThreadPk], known: &HashMap<ThreadPk, EndedCost>) -> Result<Vec<RunCosts>> {
        let query = sqlx::query(RUN_COSTS).bind(json!(last_known(pks, known)).to_string());
        let found = query.fetch_all(&self.readers).await.map_err(self.unreadable())?;
        found.iter().map(|row| RunCosts::read(row, known)).collect()
    }

    async fn titles(&self, pks: &[ThreadPk]) -> Result<Vec<(ThreadPk, String)>> {
        let found = sqlx::query(TITLES).bind(keys_of(pks)).fetch_all(&self.readers).await.map_err(self.unreadable())?;
        found.iter().filter_map(|row| read_title(row).transpose()).collect()
    }

    async fn threads(&self, tenant: TenantPk, filter: &ThreadFilter, ask: &PageAsk) -> Result<Page<ThreadRow>> {
        let (at, pk) = threads_before(ask)?;
        let last: Option<(i64, i64)> = if filter.is_narrow() {
            let query = sqlx::query_as(LAST).bind(tenant.0).bind(at).bind(pk).bind(MAX_SCANNED - 1);
            query.fetch_optional(&self.readers).await.map_err(self.unreadable())?
        } else {
            None
        };
        let (last_at, last_pk) = last.unwrap_or((i64::MIN, i64::MIN));
        let (status, q) = (filter.status.map(|status| status.as_str()), filter.q.as_deref().map(text::folded));
        let listed = |sql: &'static str, rows: i64| {
            let query = sqlx::query(sql).bind(tenant.0).bind(at).bind(pk).bind(status).bind(q.clone()).bind(rows);
            query.bind(last_at).bind(last_pk).bind(filter.result.map(|result| result.as_str()))
        };
        let sizes = listed(SIZES, ask.rows()).fetch_all(&self.readers).await.map_err(self.unreadable())?;
        let ask = within_bytes(ask, &sizes)?;
        let found = listed(LIST, ask.rows()).fetch_all(&self.readers).await.map_err(self.unreadable())?;
        page_of_threads(&found, &ask, last)
    }
}

#[async_trait]
impl ThreadStore for Sqlite {
    async fn commit(&self, commit: Commit) -> Result<Committed> {
        self.committer.commit(commit).await
    }

    async fn delete_thread(&self, gone: Erasure) -> Result<bool> {
        let is_chore = gone.is_chore;
        let erase = move |tx: &Transaction<'_>| erasure::erase(tx, &gone);
        if is_chore { self.writer.chore(erase).await } else { self.writer.write(erase).await }
    }
}
