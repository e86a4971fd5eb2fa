//! Replicas, leases, and due threads. Leases run by the database's clock.

use async_trait::async_trait;
use uuid::Uuid;

use super::{Postgres, keys_of};
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::store::columns::Columns as _;
use crate::store::leases::MAX_OVERDUE_SCANNED;
use crate::store::{Claimable, Error, LeaseStore, PROCESS_CRASHES, Registration, Renewal, Result};

/// Counts crashes for the threads that the processes in `ended` owned. A crash with many threads is attributed to none of
/// them; but threads that were owned at two crashes before are compared only with each other.
macro_rules! counted {
    () => {
        "held AS (
    SELECT t.pk, t.replica, (SELECT count(*) FROM crashes c WHERE c.pk = t.pk) >= 2 AS suspect
    FROM threads t JOIN ended ON ended.id = t.replica
), counted AS (
    INSERT INTO crashes (pk, replica, in_hand)
    SELECT pk, replica,
        CASE WHEN suspect THEN count(*) FILTER (WHERE suspect) OVER it ELSE count(*) OVER it END
    FROM held WINDOW it AS (PARTITION BY replica)
    ON CONFLICT DO NOTHING
), died AS (
    INSERT INTO crashes (pk, replica, in_hand) SELECT 0, id, 0 FROM ended ON CONFLICT DO NOTHING
)"
    };
}

/// A process that starts under a name ends the previous one. A process that registers again has lost the name if another
/// took it.
const REGISTER: &str = concat!(
    "WITH former AS (DELETE FROM replicas WHERE id = $4),
cleared AS (DELETE FROM crashes WHERE replica = $4),
ended AS (
    DELETE FROM replicas r WHERE r.id NOT IN ($1, coalesce($4, $1)) AND (r.alive_until <= now() OR (r.name = $3 AND $4 IS NULL))
    RETURNING r.id
), ",
    counted!(),
    "
INSERT INTO replicas (id, name, alive_until)
SELECT $1, $3, now() + $2 * interval '1 millisecond'
WHERE $4 IS NULL OR NOT EXISTS (
    SELECT FROM replicas r WHERE r.name = $3 AND r.id NOT IN ($1, $4) AND r.alive_until > now())
ON CONFLICT (id) DO UPDATE SET alive_until = excluded.alive_until"
);

/// The time at which the server evaluates it, not that at which the transaction began.
macro_rules! database_time {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS database_time"
    };
}

const RENEW: &str = concat!(
    "UPDATE replicas SET alive_until = now() + $2 * interval '1 millisecond' WHERE id = $1 AND alive_until > now()
RETURNING ",
    database_time!()
);

const DATABASE_TIME: &str = concat!("SELECT ", database_time!());

const END_EXPIRED: &str = concat!(
    "WITH ended AS (DELETE FROM replicas r WHERE r.alive_until <= now() RETURNING r.id), ",
    counted!(),
    " SELECT 1"
);

const CLAIMABLE: &str = "
SELECT f.pk, c.times, c.attributed, c.among
FROM (
    SELECT o.pk, o.since, row_number() OVER (PARTITION BY o.tenant ORDER BY o.since, o.pk) AS round
    FROM (
        SELECT t.pk, t.tenant, coalesce(t.wake_at, t.updated_at) AS since FROM threads t
        WHERE (t.wake_at <= $1 OR t.status = 'running')
            AND CASE WHEN t.replica = $3 THEN t.lease IS DISTINCT FROM $4
                ELSE NOT EXISTS (SELECT FROM replicas r WHERE r.id = t.replica) END
        ORDER BY since, t.pk LIMIT greatest($2, $5)
    ) o
    ORDER BY round, o.since, o.pk LIMIT $2
) f CROSS JOIN LATERAL (
    SELECT count(*) AS times, count(*) FILTER (WHERE in_hand = 1) AS attributed, coalesce(min(in_hand), 0) AS among
    FROM crashes WHERE crashes.pk = f.pk
) c
ORDER BY f.round, f.since, f.pk";

/// Locks in key order, as commits do. A locked row is skipped: its holder is writing the thread and will own it.
const RESERVE: &str = "
WITH free AS (
    SELECT t.pk FROM threads t
    WHERE t.pk = ANY ($2) AND (t.replica = $1 OR NOT EXISTS (SELECT FROM replicas r WHERE r.id = t.replica))
    ORDER BY t.pk FOR UPDATE OF t SKIP LOCKED
)
UPDATE threads t SET replica = $1 FROM free WHERE t.pk = free.pk RETURNING t.pk";

/// $2: only those that are not attributed to the thread.
const FORGET_CRASHES: &str = "DELETE FROM crashes WHERE pk = ANY ($1) AND (in_hand <> 1 OR NOT $2)";

const DUE: &str = "
SELECT pk FROM (
    SELECT pk, wake_at, row_number() OVER (PARTITION BY tenant ORDER BY wake_at, pk) AS round
    FROM (
        SELECT pk, tenant, wake_at FROM threads WHERE wake_at <= $1 AND replica = $3
        ORDER BY wake_at, pk LIMIT greatest($2, $4)
    ) o
) f ORDER BY round, wake_at, pk LIMIT $2";

const TENANTS_TO_BEGIN: &str = "
SELECT pk FROM tenants t
WHERE EXISTS (SELECT 1 FROM thread_rows r WHERE r.tenant = t.pk AND r.kind = 17 AND r.ord > 0)";

const THREADS_TO_BEGIN: &str =
    "SELECT pk FROM thread_rows WHERE tenant = $1 AND kind = 17 AND ord > 0 ORDER BY ord, pk LIMIT $2";

const COUNT_TO_BEGIN: &str = "
SELECT count(*) FROM (SELECT 1 FROM thread_rows WHERE tenant = $1 AND kind = 17 AND ord > 0 LIMIT $2) w";

const CRASHES: &str = "
SELECT pk, count(*) AS times, count(*) FILTER (WHERE in_hand = 1) AS attributed, min(in_hand) AS among
FROM crashes WHERE pk = ANY ($1) GROUP BY pk";

const COUNT_CRASH: &str = "INSERT INTO crashes (pk, replica, in_hand) VALUES ($1, $2, 1)";

#[async_trait]
impl LeaseStore for Postgres {
    async fn register(&self, new: Registration, ttl: Millis) -> Result<()> {
        let Registration { replica, name, former } = &new;
        let query = sqlx::query(REGISTER).bind(replica).bind(ttl).bind(name).bind(former);
        let registered = self.lease.execute(query).await?;
        match (registered, name) {
            (0, Some(name)) => Err(Error::Unusable(format!(
                "Another process is registered as `{name}`: give each process a PES_REPLICA of its own, or none."
            ))),
            (_, _) => Ok(()),
        }
    }

    async fn renew(&self, replica: Uuid, ttl: Millis) -> Result<Renewal> {
        let query = sqlx::query(RENEW).bind(replica).bind(ttl);
        match self.lease.fetch_optional(query).await? {
            Some(row) => Ok(Renewal::Renewed { database_time: Some(row.number("database_time")?) }),
            None => Ok(Renewal::Expired),
        }
    }

    async fn database_time(&self) -> Result<Option<Millis>> {
        self.lease.fetch_scalar(sqlx::query_scalar(DATABASE_TIME)).await.map(Some)
    }

    /// From then on nothing can be claimed for it, and its threads may be claimed by others, without a write to each of
    /// them.
    async fn unregister(&self, replica: Uuid) -> Result<()> {
        let query = sqlx::query("DELETE FROM replicas WHERE id = $1").bind(replica);
        self.lease.execute(query).await?;
        Ok(())
    }

    async fn end_expired(&self) -> Result<()> {
        self.pool.execute(sqlx::query(END_EXPIRED)).await?;
        Ok(())
    }

    async fn claimable(&self, now: Millis, replica: Uuid, lease: Uuid, limit: u32) -> Result<Vec<Claimable>> {
        let query = sqlx::query(CLAIMABLE).bind(now).bind(i64::from(limit)).bind(replica).bind(lease);
        let query = query.bind(i64::from(MAX_OVERDUE_SCANNED));
        self.pool.fetch_all(query).await?.iter().map(Claimable::read).collect()
    }

    async fn reserve(&self, replica: Uuid, pks: &[ThreadPk]) -> Result<Vec<ThreadPk>> {
        let query = sqlx::query_scalar(RESERVE).bind(replica).bind(keys_of(pks));
        Ok(self.pool.fetch_scalars(query).await?.into_iter().map(ThreadPk).collect())
    }

    async fn process_crashes(&self) -> Result<i64> {
        let query = sqlx::query_scalar("SELECT count(*) FROM crashes WHERE pk = $1").bind(PROCESS_CRASHES.0);
        self.pool.fetch_scalar(query).await
    }

    /// Uses a new replica id that belongs to no process, so that the crash is never withdrawn.
    async fn count_crash(&self, pk: ThreadPk) -> Result<()> {
        let query = sqlx::query(COUNT_CRASH).bind(pk.0).bind(Uuid::new_v4());
        self.pool.execute(query).await?;
        Ok(())
    }

    async fn forget_crashes(&self, pks: &[ThreadPk]) -> Result<()> {
        self.pool.execute(sqlx::query(FORGET_CRASHES).bind(keys_of(pks)).bind(false)).await.map(drop)
    }

    async fn forget_crashes_of_others(&self, pks: &[ThreadPk]) -> Result<()> {
        self.pool.execute(sqlx::query(FORGET_CRASHES).bind(keys_of(pks)).bind(true)).await.map(drop)
    }

    async fn due(&self, replica: Uuid, now: Millis, limit: u32) -> Result<Vec<ThreadPk>> {
        let query =
            sqlx::query_scalar(DUE).bind(now).bind(i64::from(limit)).bind(replica).bind(i64::from(MAX_OVERDUE_SCANNED));
        Ok(self.pool.fetch_scalars(query).await?.into_iter().map(ThreadPk).collect())
    }

    async fn tenants_to_begin(&self) -> Result<Vec<TenantPk>> {
        let query = sqlx::query_scalar(TENANTS_TO_BEGIN);
        let found = self.pool.fetch_scalars(query).await?;
        Ok(found.into_iter().map(TenantPk).collect())
    }

    async fn threads_to_begin(&self, tenant: TenantPk, limit: u32) -> Result<Vec<ThreadPk>> {
        let query = sqlx::query_scalar(THREADS_TO_BEGIN).bind(tenant.0).bind(i64::from(limit));
        let found = self.pool.fetch_scalars(query).await?;
        Ok(found.into_iter().map(ThreadPk).collect())
    }

    async fn crashed(&self, pks: &[ThreadPk]) -> Result<Vec<Claimable>> {
        let query = sqlx::query(CRASHES).bind(keys_of(pks));
        self.pool.fetch_all(query).await?.iter().map(Claimable::read).collect()
    }

    async fn count_to_begin(&self, tenant: TenantPk, most: u32) -> Result<u32> {
        let query = sqlx::query_scalar(COUNT_TO_BEGIN).bind(tenant.0).bind(i64::from(most));
        let count: i64 = self.pool.fetch_scalar(query).await?;
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    async fn next_wake(&self) -> Result<Option<Millis>> {
        let query = sqlx::query_scalar("SELECT min(wake_at) FROM threads");
        self.pool.fetch_scalar(query).await
    }
}
