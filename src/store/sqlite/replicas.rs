//! This process and the threads it takes care of. The folder is ours alone, so whoever registers takes over everything.

use sqlx::{Row as _, SqlitePool};
use uuid::Uuid;

use super::fault::unreadable;
use super::writer::Writer;
use crate::domain::Millis;
use crate::domain::ids::ThreadPk;
use crate::store::Result;
use crate::store::committer::CommitHealth;

/// By the index of what is due: one process owns every thread that it ever ran, so that `replica` tells little.
pub(super) const DUE: &str = "SELECT pk FROM threads WHERE wake_at <= ? AND +replica = ? ORDER BY wake_at, pk LIMIT ?";

pub(super) async fn register(writer: &Writer, replica: Uuid, ttl: Millis) -> Result<()> {
    let script = sqlx::query(
        "BEGIN IMMEDIATE;
         UPDATE threads SET lease = NULL, replica = NULL WHERE replica IS NOT NULL;
         DELETE FROM replicas;
         INSERT INTO replicas (id, alive_until) VALUES (?1, CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?2);
         COMMIT",
    );
    writer.write(script.bind(replica.simple()).bind(ttl)).await?;
    Ok(())
}

pub(super) async fn renew(writer: &Writer, replica: Uuid, ttl: Millis) -> Result<bool> {
    let update = sqlx::query(
        "UPDATE replicas SET alive_until = CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?2
         WHERE id = ?1 AND alive_until > CAST(unixepoch('subsec') * 1000 AS INTEGER) RETURNING 1",
    );
    Ok(!writer.write(update.bind(replica.simple()).bind(ttl)).await?.is_empty())
}

pub(super) async fn unregister(writer: &Writer, replica: Uuid) -> Result<()> {
    let script = sqlx::query(
        "BEGIN IMMEDIATE;
         UPDATE threads SET lease = NULL, replica = NULL WHERE replica = ?1;
         DELETE FROM replicas WHERE id = ?1;
         COMMIT",
    );
    writer.write(script.bind(replica.simple())).await?;
    Ok(())
}

pub(super) async fn claimable(db: &SqlitePool, now: Millis, limit: u32) -> Result<Vec<ThreadPk>> {
    let query = sqlx::query(
        "SELECT t.pk FROM (
             SELECT pk, replica, wake_at AS since FROM threads WHERE wake_at <= ?1
             UNION
             SELECT pk, replica, coalesce(wake_at, updated_at) FROM threads WHERE status = 'running'
         ) t LEFT JOIN replicas r ON r.id = t.replica AND r.alive_until > CAST(unixepoch('subsec') * 1000 AS INTEGER)
         WHERE r.id IS NULL ORDER BY t.since, t.pk LIMIT ?2",
    );
    pks(db, query.bind(now).bind(i64::from(limit))).await
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
