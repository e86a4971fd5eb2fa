//! This process and the threads it takes care of. The folder is ours alone, so whoever registers takes over everything.

use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqlitePool};
use uuid::Uuid;

use super::fault::unreadable;
use super::writer::Writer;
use crate::domain::Millis;
use crate::domain::ids::ThreadPk;
use crate::store::committer::CommitHealth;
use crate::store::{Claimable, Crashes, Registration, Result};

/// By the index of what is due: one process owns every thread in hand, so that `replica` tells little.
pub(super) const DUE: &str = "SELECT pk FROM threads WHERE wake_at <= ? AND +replica = ? ORDER BY wake_at, pk LIMIT ?";

/// The process before ended without taking leave, unless it was this one: what it had in hand is counted. One crash among
/// many points at nobody, but those that were in hand at two crashes before are compared with each other only.
const REGISTER: &str = "
BEGIN IMMEDIATE;
DELETE FROM replicas WHERE id = $2;
DELETE FROM crashes WHERE replica = $2;
INSERT INTO crashes (pk, replica, in_hand)
SELECT pk, replica, CASE WHEN suspect THEN sum(suspect) OVER it ELSE count(*) OVER it END
FROM (
    SELECT t.pk, t.replica, (SELECT count(*) FROM crashes c WHERE c.pk = t.pk) >= 2 AS suspect
    FROM replicas r CROSS JOIN threads t ON t.replica = r.id
) WHERE true WINDOW it AS (PARTITION BY replica)
ON CONFLICT DO NOTHING;
DELETE FROM replicas;
INSERT INTO replicas (id) VALUES ($1);
COMMIT";

/// Of the threads as `t`, by their index.
macro_rules! crashes {
    () => {
        "(SELECT count(*) FROM crashes c WHERE c.pk = t.pk) AS times,
         (SELECT count(*) FROM crashes c WHERE c.pk = t.pk AND c.in_hand = 1) AS alone,
         (SELECT coalesce(min(c.in_hand), 0) FROM crashes c WHERE c.pk = t.pk) AS among"
    };
}
pub(super) use crashes;

const CLAIMABLE: &str = concat!(
    "SELECT t.pk, ",
    crashes!(),
    " FROM (
         SELECT pk, replica, lease, wake_at AS since FROM threads WHERE wake_at <= ?1
         UNION
         SELECT pk, replica, lease, coalesce(wake_at, updated_at) FROM threads WHERE status = 'running'
     ) t LEFT JOIN replicas r ON r.id = t.replica
     WHERE CASE WHEN t.replica = ?3 THEN t.lease IS NOT ?4 ELSE r.id IS NULL END
     ORDER BY t.since, t.pk LIMIT ?2"
);

const RESERVE: &str = "
UPDATE threads SET replica = ?1
WHERE pk IN (SELECT value FROM json_each(?2))
    AND (replica IS NULL OR replica = ?1 OR NOT EXISTS (SELECT 1 FROM replicas r WHERE r.id = threads.replica))
RETURNING pk";

const FORGET_CRASHES: &str =
    "DELETE FROM crashes WHERE pk IN (SELECT value FROM json_each(?1)) AND (in_hand <> 1 OR NOT ?2)";

/// The folder is locked: there is no other process, and no time after which there could be one.
pub(super) async fn register(writer: &Writer, new: Registration) -> Result<()> {
    let former = new.former.map(|id| id.simple());
    writer.write(sqlx::query(REGISTER).bind(new.replica.simple()).bind(former)).await?;
    Ok(())
}

pub(super) async fn renew(db: &SqlitePool, replica: Uuid) -> Result<bool> {
    let query = sqlx::query("SELECT 1 FROM replicas WHERE id = ?").bind(replica.simple());
    Ok(query.fetch_optional(db).await.map_err(unreadable)?.is_some())
}

pub(super) async fn unregister(writer: &Writer, replica: Uuid) -> Result<()> {
    writer.write(sqlx::query("DELETE FROM replicas WHERE id = ?1").bind(replica.simple())).await?;
    Ok(())
}

pub(super) async fn claimable(
    db: &SqlitePool,
    now: Millis,
    replica: Uuid,
    lease: Uuid,
    limit: u32,
) -> Result<Vec<Claimable>> {
    let query = sqlx::query(CLAIMABLE).bind(now).bind(i64::from(limit)).bind(replica.simple()).bind(lease.simple());
    let found = query.fetch_all(db).await.map_err(unreadable)?;
    let claimable = |row: &SqliteRow| Ok(Claimable { pk: ThreadPk(row.try_get("pk")?), crashes: read_crashes(row)? });
    found.iter().map(claimable).collect::<sqlx::Result<_>>().map_err(unreadable)
}

pub(super) fn read_crashes(row: &SqliteRow) -> sqlx::Result<Crashes> {
    Ok(Crashes { times: row.try_get("times")?, alone: row.try_get("alone")?, among: row.try_get("among")? })
}

pub(super) async fn reserve(writer: &Writer, replica: Uuid, pks: &[ThreadPk]) -> Result<Vec<ThreadPk>> {
    let reserved = writer.write(sqlx::query(RESERVE).bind(replica.simple()).bind(keys(pks))).await?;
    reserved.iter().map(|row| row.try_get(0).map(ThreadPk).map_err(unreadable)).collect()
}

/// A replica of no process: nobody takes it back.
pub(super) async fn count_crash(writer: &Writer, pk: ThreadPk) -> Result<()> {
    let insert = sqlx::query("INSERT INTO crashes (pk, replica, in_hand) VALUES (?1, ?2, 1)");
    writer.write(insert.bind(pk.0).bind(Uuid::new_v4().simple())).await?;
    Ok(())
}

pub(super) async fn forget_crashes(writer: &Writer, pks: &[ThreadPk], keeps_alone: bool) -> Result<()> {
    writer.write(sqlx::query(FORGET_CRASHES).bind(keys(pks)).bind(keeps_alone)).await?;
    Ok(())
}

fn keys(pks: &[ThreadPk]) -> String {
    serde_json::Value::from_iter(pks.iter().map(|pk| pk.0)).to_string()
}

pub(super) async fn due(db: &SqlitePool, replica: Uuid, now: Millis, limit: u32) -> Result<Vec<ThreadPk>> {
    pks(db, sqlx::query(DUE).bind(now).bind(replica.simple()).bind(i64::from(limit))).await
}

async fn pks(db: &SqlitePool, query: super::writer::Script) -> Result<Vec<ThreadPk>> {
    let found = query.fetch_all(db).await.map_err(unreadable)?;
    found.iter().map(|row| row.try_get(0).map(ThreadPk).map_err(unreadable)).collect()
}

pub(super) async fn next_wake(db: &SqlitePool) -> Result<Option<Millis>> {
    let query = sqlx::query_scalar("SELECT min(wake_at) FROM threads WHERE wake_at IS NOT NULL");
    query.fetch_one(db).await.map_err(unreadable)
}

/// Writes as much as a commit that failed: where the disk is full, a few bytes may still find room.
pub(super) async fn ping(writer: &Writer, health: &CommitHealth) -> Result<()> {
    health.check()?;
    let proof = health.proof();
    let beat = "INSERT INTO pulse (id, beats, ballast) VALUES (1, 1, zeroblob(?1))
         ON CONFLICT (id) DO UPDATE SET beats = beats + 1, ballast = excluded.ballast";
    writer.write(sqlx::query(beat).bind(i64::try_from(proof).unwrap_or(i64::MAX))).await?;
    health.succeeds(proof);
    Ok(())
}
