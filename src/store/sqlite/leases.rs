//! The registration of this process and the threads that it owns. The folder lock excludes other processes, and
//! registrations do not expire: a process that registers takes over everything.

use async_trait::async_trait;
use rusqlite::{Transaction, params};
use uuid::Uuid;

use super::{Sqlite, keys_of, stored_id};
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::store::columns::Columns as _;
use crate::store::leases::MAX_OVERDUE_SCANNED;
use crate::store::{Claimable, LeaseStore, PROCESS_CRASHES, Registration, Renewal, Result};

/// Uses the index by `wake_at`: one process owns all threads, so `replica` selects little.
pub(super) const DUE: &str = "
SELECT pk FROM (
    SELECT pk, wake_at, row_number() OVER (PARTITION BY tenant ORDER BY wake_at, pk) AS round
    FROM (
        SELECT pk, tenant, wake_at FROM threads WHERE wake_at <= ?1 AND +replica = ?2
        ORDER BY wake_at, pk LIMIT max(?3, ?4)
    )
) ORDER BY round, wake_at, pk LIMIT ?3";

/// Counts a crash for the threads that the previous process owned.
const COUNT_CRASHES: &str = "
INSERT INTO crashes (pk, replica, in_hand)
SELECT pk, replica, CASE WHEN suspect THEN sum(suspect) OVER it ELSE count(*) OVER it END
FROM (
    SELECT t.pk, t.replica, (SELECT count(*) FROM crashes c WHERE c.pk = t.pk) >= 2 AS suspect
    FROM replicas r CROSS JOIN threads t ON t.replica = r.id
) WHERE true WINDOW it AS (PARTITION BY replica)
ON CONFLICT DO NOTHING";

/// Counts the crash of the previous process itself, whatever it owned.
const COUNT_PROCESS_CRASH: &str =
    "INSERT INTO crashes (pk, replica, in_hand) SELECT ?1, id, 0 FROM replicas WHERE true ON CONFLICT DO NOTHING";

/// The crash counts of the threads `t`, by their index.
macro_rules! crashes {
    () => {
        "(SELECT count(*) FROM crashes c WHERE c.pk = t.pk) AS times,
         (SELECT count(*) FROM crashes c WHERE c.pk = t.pk AND c.in_hand = 1) AS attributed,
         (SELECT coalesce(min(c.in_hand), 0) FROM crashes c WHERE c.pk = t.pk) AS among"
    };
}
pub(super) use crashes;

/// Whether no process owns the thread `f`.
macro_rules! is_free {
    () => {
        "CASE WHEN f.replica = ?3 THEN f.lease IS NOT ?4
             ELSE NOT EXISTS (SELECT 1 FROM replicas r WHERE r.id = f.replica) END"
    };
}

/// Bounded also after a crash with very many running threads: of those without a due timer the first by their keys are
/// ordered, because no index has them by time.
pub(super) const CLAIMABLE: &str = concat!(
    "SELECT t.pk, ",
    crashes!(),
    " FROM (
         SELECT o.pk, o.since, row_number() OVER (PARTITION BY o.tenant ORDER BY o.since, o.pk) AS round
         FROM (
             SELECT * FROM (
                 SELECT f.pk, f.tenant, f.wake_at AS since FROM threads f WHERE f.wake_at <= ?1 AND ",
    is_free!(),
    "            ORDER BY f.wake_at, f.pk LIMIT max(?2, ?5))
             UNION ALL
             SELECT * FROM (
                 SELECT f.pk, f.tenant, coalesce(f.wake_at, f.updated_at) FROM threads f
                 WHERE f.status = 'running' AND (f.wake_at IS NULL OR f.wake_at > ?1) AND ",
    is_free!(),
    "            ORDER BY f.pk LIMIT max(?2, ?5))
         ) o
         ORDER BY round, o.since, o.pk LIMIT ?2
     ) t
     ORDER BY t.round, t.since, t.pk"
);

const RESERVE: &str = "
UPDATE threads SET replica = ?1
WHERE pk IN (SELECT value FROM json_each(?2))
    AND (replica IS NULL OR replica = ?1 OR NOT EXISTS (SELECT 1 FROM replicas r WHERE r.id = threads.replica))
RETURNING pk";

const TENANTS_TO_BEGIN: &str = "
SELECT pk FROM tenants t
WHERE EXISTS (SELECT 1 FROM thread_rows r WHERE r.tenant = t.pk AND r.kind = 17 AND r.ord > 0)";

const THREADS_TO_BEGIN: &str =
    "SELECT pk FROM thread_rows WHERE tenant = ?1 AND kind = 17 AND ord > 0 ORDER BY ord, pk LIMIT ?2";

const COUNT_TO_BEGIN: &str = "
SELECT count(*) FROM (SELECT 1 FROM thread_rows WHERE tenant = ?1 AND kind = 17 AND ord > 0 LIMIT ?2)";

/// ?2: only those that are not attributed to the thread.
const FORGET_CRASHES: &str =
    "DELETE FROM crashes WHERE pk IN (SELECT value FROM json_each(?1)) AND (in_hand <> 1 OR NOT ?2)";

pub(super) const CRASHES: &str = "
SELECT pk, count(*) AS times, count(*) FILTER (WHERE in_hand = 1) AS attributed, min(in_hand) AS among
FROM crashes WHERE pk IN (SELECT value FROM json_each(?1)) GROUP BY pk";

const COUNT_CRASH: &str = "INSERT INTO crashes (pk, replica, in_hand) VALUES (?1, ?2, 1)";

#[async_trait]
impl LeaseStore for Sqlite {
    fn leases_expire(&self) -> bool {
        false
    }

    async fn register(&self, new: Registration, _ttl: Millis) -> Result<()> {
        self.writer.write(move |tx| register(tx, new)).await
    }

    async fn renew(&self, replica: Uuid, _ttl: Millis) -> Result<Renewal> {
        let query = sqlx::query("SELECT 1 FROM replicas WHERE id = ?").bind(replica.simple());
        let found = query.fetch_optional(&self.readers).await.map_err(self.unreadable())?;
        Ok(found.map_or(Renewal::Expired, |_| Renewal::Renewed { database_time: None }))
    }

    async fn unregister(&self, replica: Uuid) -> Result<()> {
        let forget = move |tx: &Transaction<'_>| forget_replica(tx, replica);
        self.writer.write(forget).await
    }

    async fn end_expired(&self) -> Result<()> {
        Ok(())
    }

    async fn claimable(&self, now: Millis, replica: Uuid, lease: Uuid, limit: u32) -> Result<Vec<Claimable>> {
        let query = sqlx::query(CLAIMABLE).bind(now).bind(i64::from(limit));
        let query = query.bind(replica.simple()).bind(lease.simple()).bind(i64::from(MAX_OVERDUE_SCANNED));
        query.fetch_all(&self.readers).await.map_err(self.unreadable())?.iter().map(Claimable::read).collect()
    }

    async fn reserve(&self, replica: Uuid, pks: &[ThreadPk]) -> Result<Vec<ThreadPk>> {
        let pks = keys_of(pks);
        let reserve = move |tx: &Transaction<'_>| {
            let mut statement = tx.prepare_cached(RESERVE)?;
            let reserved = statement.query_map(params![stored_id(replica), pks], |row| row.get(0).map(ThreadPk))?;
            reserved.collect()
        };
        self.writer.write(reserve).await
    }

    async fn process_crashes(&self) -> Result<i64> {
        let query = sqlx::query_scalar("SELECT count(*) FROM crashes WHERE pk = ?").bind(PROCESS_CRASHES.0);
        query.fetch_one(&self.readers).await.map_err(self.unreadable())
    }

    /// Uses a new replica id that belongs to no process, so that the crash is never withdrawn.
    async fn count_crash(&self, pk: ThreadPk) -> Result<()> {
        let nobody = stored_id(Uuid::new_v4());
        self.writer.write(move |tx| tx.prepare_cached(COUNT_CRASH)?.execute(params![pk.0, nobody])).await?;
        Ok(())
    }

    async fn forget_crashes(&self, pks: &[ThreadPk]) -> Result<()> {
        let pks = keys_of(pks);
        self.writer.write(move |tx| tx.prepare_cached(FORGET_CRASHES)?.execute(params![pks, false])).await.map(drop)
    }

    async fn forget_crashes_of_others(&self, pks: &[ThreadPk]) -> Result<()> {
        let pks = keys_of(pks);
        self.writer.write(move |tx| tx.prepare_cached(FORGET_CRASHES)?.execute(params![pks, true])).await.map(drop)
    }

    async fn due(&self, replica: Uuid, now: Millis, limit: u32) -> Result<Vec<ThreadPk>> {
        let query = sqlx::query(DUE)
            .bind(now)
            .bind(replica.simple())
            .bind(i64::from(limit))
            .bind(i64::from(MAX_OVERDUE_SCANNED));
        let found = query.fetch_all(&self.readers).await.map_err(self.unreadable())?;
        found.iter().map(|row| row.number("pk").map(ThreadPk)).collect()
    }

    async fn tenants_to_begin(&self) -> Result<Vec<TenantPk>> {
        let found: Vec<i64> =
            sqlx::query_scalar(TENANTS_TO_BEGIN).fetch_all(&self.readers).await.map_err(self.unreadable())?;
        Ok(found.into_iter().map(TenantPk).collect())
    }

    async fn threads_to_begin(&self, tenant: TenantPk, limit: u32) -> Result<Vec<ThreadPk>> {
        let query = sqlx::query_scalar(THREADS_TO_BEGIN).bind(tenant.0).bind(limit);
        let found: Vec<i64> = query.fetch_all(&self.readers).await.map_err(self.unreadable())?;
        Ok(found.into_iter().map(ThreadPk).collect())
    }

    async fn crashed(&self, pks: &[ThreadPk]) -> Result<Vec<Claimable>> {
        let query = sqlx::query(CRASHES).bind(keys_of(pks));
        query.fetch_all(&self.readers).await.map_err(self.unreadable())?.iter().map(Claimable::read).collect()
    }

    async fn count_to_begin(&self, tenant: TenantPk, most: u32) -> Result<u32> {
        let query = sqlx::query_scalar(COUNT_TO_BEGIN).bind(tenant.0).bind(most);
        query.fetch_one(&self.readers).await.map_err(self.unreadable())
    }

    async fn next_wake(&self) -> Result<Option<Millis>> {
        let query = sqlx::query_scalar("SELECT min(wake_at) FROM threads WHERE wake_at IS NOT NULL");
        query.fetch_one(&self.readers).await.map_err(self.unreadable())
    }
}

/// Registers this process. A previous process that is still registered has crashed, unless it was this one: the crash is
/// counted for the threads that it owned. A crash with many threads is attributed to none of them; but threads that were
/// owned at two crashes before are compared only with each other.
fn register(tx: &Transaction<'_>, new: Registration) -> rusqlite::Result<()> {
    if let Some(former) = new.former {
        forget_replica(tx, former)?;
        tx.execute("DELETE FROM crashes WHERE replica = ?1", params![stored_id(former)])?;
    }
    tx.execute(COUNT_CRASHES, [])?;
    tx.execute(COUNT_PROCESS_CRASH, params![PROCESS_CRASHES.0])?;
    tx.execute("DELETE FROM replicas", [])?;
    tx.execute("INSERT INTO replicas (id) VALUES (?1)", params![stored_id(new.replica)])?;
    Ok(())
}

fn forget_replica(tx: &Transaction<'_>, replica: Uuid) -> rusqlite::Result<()> {
    tx.execute("DELETE FROM replicas WHERE id = ?1", params![stored_id(replica)])?;
    Ok(())
}
