//! Who is alive, who owns what, and what is due. Leases run by the database's clock.

use uuid::Uuid;

use super::pool::Pool;
use crate::domain::Millis;
use crate::domain::ids::ThreadPk;
use crate::store::Result;
use crate::store::committer::CommitHealth;

/// Long-dead replicas are forgotten on the way: being unknown is the same as being dead.
const REGISTER: &str = "
WITH forgotten AS (DELETE FROM replicas WHERE alive_until < now() - interval '1 day' AND id <> $1)
INSERT INTO replicas (id, alive_until) VALUES ($1, now() + $2 * interval '1 millisecond')
ON CONFLICT (id) DO UPDATE SET alive_until = excluded.alive_until";

const RENEW: &str = "
UPDATE replicas SET alive_until = now() + $2 * interval '1 millisecond' WHERE id = $1 AND alive_until > now()";

/// Locks in key order, as the committers do.
const FREE: &str = "
WITH owned AS (SELECT pk FROM threads WHERE replica = $1 ORDER BY pk FOR UPDATE)
UPDATE threads t SET lease = NULL, replica = NULL FROM owned WHERE t.pk = owned.pk AND t.replica = $1";

const CLAIMABLE: &str = "
SELECT t.pk FROM threads t
WHERE (t.wake_at <= $1 OR t.status = 'running')
    AND NOT EXISTS (SELECT FROM replicas r WHERE r.id = t.replica AND r.alive_until > now())
ORDER BY coalesce(t.wake_at, t.updated_at), t.pk LIMIT $2";

const DUE: &str = "
SELECT pk FROM threads WHERE wake_at <= $1 AND replica = $3 ORDER BY wake_at, pk LIMIT $2";

const PING: &str = "
INSERT INTO pulse (id, beats, ballast) VALUES (1, 1, convert_to(repeat('.', $1), 'UTF8'))
ON CONFLICT (id) DO UPDATE SET beats = pulse.beats + 1, ballast = excluded.ballast";

pub(super) async fn register(pool: &Pool, replica: Uuid, ttl: Millis) -> Result<()> {
    pool.ask(async |line| sqlx::query(REGISTER).bind(replica).bind(ttl).execute(line).await).await?;
    Ok(())
}

pub(super) async fn renew(pool: &Pool, replica: Uuid, ttl: Millis) -> Result<bool> {
    let renewed = pool.ask(async |line| sqlx::query(RENEW).bind(replica).bind(ttl).execute(line).await).await?;
    Ok(renewed.rows_affected() == 1)
}

/// Dead first: from then on nothing is claimed in its name.
pub(super) async fn unregister(pool: &Pool, replica: Uuid) -> Result<()> {
    pool.ask(async |line| sqlx::query("DELETE FROM replicas WHERE id = $1").bind(replica).execute(line).await).await?;
    pool.ask(async |line| sqlx::query(FREE).bind(replica).execute(line).await).await?;
    Ok(())
}

pub(super) async fn claimable(pool: &Pool, now: Millis, limit: u32) -> Result<Vec<ThreadPk>> {
    let found = pool
        .ask(async |line| sqlx::query_scalar(CLAIMABLE).bind(now).bind(i64::from(limit)).fetch_all(line).await)
        .await?;
    Ok(found.into_iter().map(ThreadPk).collect())
}

pub(super) async fn due(pool: &Pool, replica: Uuid, now: Millis, limit: u32) -> Result<Vec<ThreadPk>> {
    let query = sqlx::query_scalar(DUE).bind(now).bind(i64::from(limit)).bind(replica);
    Ok(pool.ask(async |line| query.fetch_all(line).await).await?.into_iter().map(ThreadPk).collect())
}

pub(super) async fn next_wake(pool: &Pool) -> Result<Option<Millis>> {
    pool.ask(async |line| sqlx::query_scalar("SELECT min(wake_at) FROM threads").fetch_one(line).await).await
}

/// Writes as much as a commit that failed: where the disk is full, a few bytes may still find room.
pub(super) async fn ping(pool: &Pool, health: &CommitHealth) -> Result<()> {
    health.check()?;
    let proof = health.proof();
    let ballast = i32::try_from(proof).unwrap_or(i32::MAX);
    pool.ask(async |line| sqlx::query(PING).bind(ballast).execute(line).await).await?;
    health.succeeds(proof);
    Ok(())
}
