//! Threads: read one, list a page of them, delete one.

use async_trait::async_trait;
use serde_json::{Value, json};

use super::fault::unreadable;
use super::{Sqlite, rows};
use crate::domain::ids::{TenantPk, ThreadId, ThreadPk};
use crate::engine::step::Row;
use crate::store::threads::{page_of_threads, threads_before};
use crate::store::{
    AuditRow, Commit, Committed, Erasure, LOOKED_AT, Mark, Page, PageAsk, Result, ThreadFilter, ThreadRow, ThreadStore,
    text,
};

macro_rules! select_thread {
    ($rest:literal) => {
        concat!(
            "SELECT pk, tenant, thread_id, core, version, epoch, lease, replica, status, wake_at, floor, last_seq, \
             min_seq, created_at, updated_at, created_by, sheet, head, \
             EXISTS (SELECT 1 FROM replicas o WHERE o.id = t.replica) AS is_owned, ",
            super::leases::crashes!(),
            " FROM threads t ",
            $rest
        )
    };
}

const NAMED: &str = select_thread!("WHERE tenant = ? AND thread_id = ?");

const BY_PK: &str = select_thread!("WHERE pk = ?");

const MARKS: &str = "SELECT pk, version, last_seq FROM threads WHERE pk IN (SELECT value FROM json_each(?))";

/// The last thread that a filter is tried on for the page that begins after this one.
const LAST: &str = "
SELECT updated_at, pk FROM threads WHERE tenant = ?1 AND (updated_at, pk) < (?2, ?3)
ORDER BY updated_at DESC, pk DESC LIMIT 1 OFFSET ?4";

const LIST: &str = select_thread!(
    "WHERE tenant = ?1 AND (updated_at, pk) < (?2, ?3) AND (updated_at, pk) >= (?7, ?8)
     AND (?4 IS NULL OR status = ?4)
     AND (?5 IS NULL OR instr(title, ?5) > 0 OR instr(lower(thread_id), ?5) > 0)
     ORDER BY updated_at DESC, pk DESC LIMIT ?6"
);

macro_rules! of_the_erased {
    () => {
        " WHERE pk = (SELECT pk FROM threads WHERE pk = ?1 AND version = ?2)"
    };
}

/// The thread itself goes last: while it is there as it was read, the rest is erased.
const ERASE: &str = concat!(
    "BEGIN IMMEDIATE;
     INSERT INTO usage_kept (tenant, ord, body)
         SELECT tenant, ord, json_set(json_remove(body, '$.item'), '$.run', 'deleted') FROM thread_rows",
    of_the_erased!(),
    " AND kind = 11; DELETE FROM thread_rows",
    of_the_erased!(),
    "; DELETE FROM observations",
    of_the_erased!(),
    "; DELETE FROM crashes",
    of_the_erased!(),
    "; DELETE FROM idempotency",
    of_the_erased!(),
    "; DELETE FROM deliveries",
    of_the_erased!(),
    ";
     INSERT INTO deliveries (pk, tenant, id, target_kind, target, lane, event, status, due_at, attempts, created_at, body)
         SELECT pk, tenant, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, 'pending', ?3, 0, ?3,
             value ->> 5
         FROM json_each(?4), threads",
    of_the_erased!(),
    "; INSERT INTO audit (pk, tenant, thread_id, at, actor, action, detail)
         SELECT 0, tenant, ?8, ?3, ?5, ?6, ?7 FROM threads",
    of_the_erased!(),
    ";
     DELETE FROM threads WHERE pk = ?1 AND version = ?2 RETURNING pk;
     COMMIT"
);

#[async_trait]
impl ThreadStore for Sqlite {
    async fn commit(&self, commit: Commit) -> Result<Committed> {
        self.committer.commit(commit).await
    }

    async fn thread(&self, tenant: TenantPk, id: &ThreadId) -> Result<Option<ThreadRow>> {
        let query = sqlx::query(NAMED).bind(tenant.0).bind(id.as_str());
        let found = query.fetch_optional(&self.readers).await.map_err(unreadable)?;
        found.as_ref().map(ThreadRow::read).transpose()
    }

    async fn thread_by_pk(&self, pk: ThreadPk) -> Result<Option<ThreadRow>> {
        let found = sqlx::query(BY_PK).bind(pk.0).fetch_optional(&self.readers).await.map_err(unreadable)?;
        found.as_ref().map(ThreadRow::read).transpose()
    }

    async fn load(&self, pk: ThreadPk) -> Result<Option<(ThreadRow, Vec<Row>)>> {
        let mut snapshot = self.readers.begin().await.map_err(unreadable)?;
        let found = sqlx::query(BY_PK).bind(pk.0).fetch_optional(&mut *snapshot).await.map_err(unreadable)?;
        let Some(found) = found else { return Ok(None) };
        let thread = ThreadRow::read(&found)?;
        let rows = rows::kept(&mut *snapshot, pk, thread.floor).await?;
        Ok(Some((thread, rows)))
    }

    async fn marks(&self, pks: &[ThreadPk]) -> Result<Vec<Mark>> {
        let pks = Value::from_iter(pks.iter().map(|pk| pk.0)).to_string();
        let found = sqlx::query(MARKS).bind(pks).fetch_all(&self.readers).await.map_err(unreadable)?;
        found.iter().map(Mark::read).collect()
    }

    async fn threads(&self, tenant: TenantPk, filter: &ThreadFilter, ask: &PageAsk) -> Result<Page<ThreadRow>> {
        let (at, pk) = threads_before(ask)?;
        let last: Option<(i64, i64)> = if filter.is_narrow() {
            let query = sqlx::query_as(LAST).bind(tenant.0).bind(at).bind(pk).bind(LOOKED_AT - 1);
            query.fetch_optional(&self.readers).await.map_err(unreadable)?
        } else {
            None
        };
        let (last_at, last_pk) = last.unwrap_or((i64::MIN, i64::MIN));
        let query = sqlx::query(LIST).bind(tenant.0).bind(at).bind(pk);
        let query = query.bind(filter.status.map(|status| status.as_str()));
        let query = query.bind(filter.q.as_deref().map(text::folded)).bind(ask.rows());
        let found = query.bind(last_at).bind(last_pk).fetch_all(&self.readers).await.map_err(unreadable)?;
        page_of_threads(&found, ask, last)
    }

    async fn delete_thread(&self, erasure: Erasure) -> Result<bool> {
        let left = erasure
            .deliveries
            .iter()
            .map(|new| json!([new.id, new.kind.as_str(), new.target, new.ordering_key, new.event, new.body]));
        let left = left.collect::<Value>().to_string();
        let script = sqlx::query(ERASE).bind(erasure.thread.0).bind(erasure.version).bind(erasure.now).bind(left);
        let AuditRow { thread_id, actor, action, detail, .. } = erasure.audit;
        let script = script.bind(actor).bind(action).bind(detail.to_string());
        let script = script.bind(thread_id.map(|id| id.as_str().to_owned()));
        Ok(!self.writer.write(script).await?.is_empty())
    }
}
