//! What happened: observations, decisions, answered requests.

use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqlitePool};

use super::fault::unreadable;
use super::writer::{Script, Writer};
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadId, ThreadPk};
use crate::domain::observation::Observation;
use crate::store::log::{self, Entry};
use crate::store::{AuditRow, IdempotencyRow, ObservationAsk, Result, text};

/// Those after a number; of those asked for by type, what may hold some.
const ENTRIES: &str = "
SELECT t.thread_id, o.seq, o.body FROM observations o JOIN threads t ON t.pk = o.pk
WHERE o.pk = ?1 AND o.seq > ?2
    AND (?3 IS NULL OR EXISTS (SELECT 1 FROM json_each(?3) w WHERE instr(o.types, w.value)))
ORDER BY o.seq LIMIT ?4";

pub(super) async fn observations(db: &SqlitePool, pk: ThreadPk, ask: &ObservationAsk) -> Result<Vec<Observation>> {
    let types = serde_json::to_string(&ask.types).expect("types are words");
    let types = (!ask.types.is_empty()).then_some(types);
    log::observations(ask, |after, limit| {
        let query = sqlx::query(ENTRIES).bind(pk.0).bind(after).bind(types.clone()).bind(limit);
        async move { query.fetch_all(db).await.and_then(|found| found.iter().map(entry).collect()).map_err(unreadable) }
    })
    .await
}

fn entry(row: &SqliteRow) -> std::result::Result<Entry, sqlx::Error> {
    Ok(Entry { thread: row.try_get::<String, _>(0)?.into(), seq: row.try_get(1)?, body: row.try_get(2)? })
}

pub(super) async fn audit(db: &SqlitePool, tenant: TenantPk, thread: &ThreadId) -> Result<Vec<AuditRow>> {
    let query = sqlx::query(
        "SELECT pk, tenant, thread_id, at, actor, action, detail FROM audit
         WHERE tenant = ? AND thread_id = ? ORDER BY rowid",
    );
    let found = query.bind(tenant.0).bind(thread.as_str()).fetch_all(db).await.map_err(unreadable)?;
    found.iter().map(audit_row).collect()
}

pub(super) fn audit_row(row: &SqliteRow) -> Result<AuditRow> {
    let read = || {
        Ok(AuditRow {
            thread: ThreadPk(row.try_get("pk")?),
            tenant: TenantPk(row.try_get("tenant")?),
            thread_id: row.try_get::<Option<String>, _>("thread_id")?.map(ThreadId::from),
            at: row.try_get("at")?,
            actor: row.try_get("actor")?,
            action: row.try_get("action")?,
            detail: text::json(row.try_get("detail")?),
        })
    };
    read().map_err(unreadable)
}

pub(super) async fn idempotency(
    db: &SqlitePool,
    tenant: TenantPk,
    scope: &str,
    key: &str,
) -> Result<Option<IdempotencyRow>> {
    let query = sqlx::query(
        "SELECT fingerprint, status, body, location, created_at FROM idempotency
         WHERE tenant = ? AND scope = ? AND key = ?",
    );
    let found = query.bind(tenant.0).bind(scope).bind(key).fetch_optional(db).await.map_err(unreadable)?;
    let read = |row: SqliteRow| {
        Ok(IdempotencyRow {
            tenant,
            scope: scope.to_owned(),
            key: key.to_owned(),
            fingerprint: row.try_get(0)?,
            status: row.try_get(1)?,
            body: row.try_get(2)?,
            location: row.try_get(3)?,
            created_at: row.try_get(4)?,
        })
    };
    found.map(read).transpose().map_err(unreadable)
}

pub(super) const FORGET: &str = "DELETE FROM idempotency WHERE rowid IN
    (SELECT rowid FROM idempotency WHERE created_at < ? ORDER BY created_at LIMIT ?) RETURNING 1";

pub(super) async fn forget_idempotency(writer: &Writer, before: Millis, limit: u32) -> Result<u64> {
    Ok(writer.write(sqlx::query(FORGET).bind(before).bind(limit)).await?.len() as u64)
}

/// Binds scope, key, fingerprint, status, location, time and body of an answer to be kept; without one they are NULL.
pub(super) fn with_kept(script: Script, kept: Option<IdempotencyRow>) -> Script {
    let text = |part: fn(&IdempotencyRow) -> &String| kept.as_ref().map(part).cloned();
    let script = script.bind(text(|row| &row.scope)).bind(text(|row| &row.key)).bind(text(|row| &row.fingerprint));
    let script = script.bind(kept.as_ref().map(|row| row.status));
    let script = script.bind(kept.as_ref().and_then(|row| row.location.clone()));
    script.bind(kept.as_ref().map(|row| row.created_at)).bind(text(|row| &row.body))
}
