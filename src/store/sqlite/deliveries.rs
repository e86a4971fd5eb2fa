//! The outbox.

use async_trait::async_trait;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqlitePool};

use super::Sqlite;
use super::fault::unreadable;
use super::log;
use super::writer::Writer;
use crate::domain::Millis;
use crate::domain::ids::{DeliveryId, TenantPk, ThreadPk};
use crate::store::cursor::{Cursor, page};
use crate::store::delivery::{Deliveries, Delivery, DeliveryStatus, Settled, TargetKind};
use crate::store::{IdempotencyRow, Page, PageAsk, Result, text};

#[async_trait]
impl Deliveries for Sqlite {
    async fn claim_deliveries(&self, now: Millis, until: Millis, limit: u32) -> Result<Vec<Delivery>> {
        claim(&self.writer, now, until, limit).await
    }
    async fn settle_delivery(
        &self,
        id: &DeliveryId,
        attempt: u32,
        settled: Settled,
        said: &str,
        now: Millis,
    ) -> Result<bool> {
        settle(&self.writer, id, attempt, settled, said, now).await
    }
    async fn next_delivery(&self) -> Result<Option<Millis>> {
        next(&self.readers).await
    }
    async fn deliveries(
        &self,
        tenant: TenantPk,
        kind: TargetKind,
        target: &str,
        page: &PageAsk,
    ) -> Result<Page<Delivery>> {
        list(&self.readers, tenant, kind, target, page).await
    }
    async fn replay_delivery(
        &self,
        tenant: TenantPk,
        id: &DeliveryId,
        now: Millis,
        kept: Option<IdempotencyRow>,
    ) -> Result<Option<bool>> {
        replay(&self.writer, tenant, id, now, kept).await
    }
    async fn abandon_deliveries(
        &self,
        tenant: TenantPk,
        kind: TargetKind,
        target: &str,
        why: &str,
        now: Millis,
    ) -> Result<u64> {
        abandon(&self.writer, tenant, kind, target, why, now).await
    }
    async fn forget_deliveries(&self, before: Millis, limit: u32) -> Result<u64> {
        forget(&self.writer, before, limit).await
    }
}

macro_rules! columns {
    () => {
        "id, tenant, pk, target_kind, target, lane, event, body, status, due_at, attempts, said, created_at, finished_at"
    };
}

const CLAIM: &str = concat!(
    "UPDATE deliveries SET due_at = ?2, attempts = attempts + 1
     WHERE ord IN (
         SELECT d.ord FROM deliveries d
         WHERE d.due_at <= ?1 AND (d.lane IS NULL OR NOT EXISTS (
             SELECT 1 FROM deliveries e WHERE e.lane = d.lane AND e.ord < d.ord AND e.due_at IS NOT NULL))
         ORDER BY d.due_at, d.ord LIMIT ?3)
     RETURNING ",
    columns!()
);

const NEXT: &str = "
SELECT d.due_at FROM deliveries d
WHERE d.due_at IS NOT NULL AND (d.lane IS NULL OR NOT EXISTS (
    SELECT 1 FROM deliveries e WHERE e.lane = d.lane AND e.ord < d.ord AND e.due_at IS NOT NULL))
ORDER BY d.due_at LIMIT 1";

async fn claim(writer: &Writer, now: Millis, until: Millis, limit: u32) -> Result<Vec<Delivery>> {
    let claimed = writer.write(sqlx::query(CLAIM).bind(now).bind(until).bind(i64::from(limit))).await?;
    claimed.iter().map(delivery).collect()
}

async fn settle(
    writer: &Writer,
    id: &DeliveryId,
    attempt: u32,
    settled: Settled,
    said: &str,
    now: Millis,
) -> Result<bool> {
    let (status, due_at) = settled.becomes();
    let update = sqlx::query(
        "UPDATE deliveries SET status = ?3, due_at = ?4, said = ?5, finished_at = iif(?4 IS NULL, ?6, NULL)
         WHERE id = ?1 AND attempts = ?2 AND due_at IS NOT NULL RETURNING 1",
    );
    let update = update.bind(id.as_str().to_owned()).bind(i64::from(attempt)).bind(status.as_str()).bind(due_at);
    Ok(!writer.write(update.bind(said.to_owned()).bind(now)).await?.is_empty())
}

async fn next(db: &SqlitePool) -> Result<Option<Millis>> {
    let query = sqlx::query_scalar(NEXT);
    query.fetch_optional(db).await.map_err(unreadable)
}

async fn list(
    db: &SqlitePool,
    tenant: TenantPk,
    kind: TargetKind,
    target: &str,
    ask: &PageAsk,
) -> Result<Page<Delivery>> {
    let before = Cursor::of(ask)?.map_or(i64::MAX, |cursor| cursor.at);
    let query = sqlx::query(concat!(
        "SELECT ",
        columns!(),
        ", ord FROM deliveries WHERE tenant = ? AND target_kind = ? AND target = ? AND ord < ? ORDER BY ord DESC LIMIT ?"
    ));
    let query = query.bind(tenant.0).bind(kind.as_str()).bind(target).bind(before).bind(i64::from(ask.limit) + 1);
    let found = query.fetch_all(db).await.map_err(unreadable)?;
    let placed = |row: &SqliteRow| Ok((row.try_get::<i64, _>("ord").map_err(unreadable)?, delivery(row)?));
    let found = page(found.iter().map(placed).collect::<Result<_>>()?, ask.limit, |(ord, _)| Cursor::new(*ord, ""));
    Ok(Page { items: found.items.into_iter().map(|(_, one)| one).collect(), next_cursor: found.next_cursor })
}

async fn replay(
    writer: &Writer,
    tenant: TenantPk,
    id: &DeliveryId,
    now: Millis,
    kept: Option<IdempotencyRow>,
) -> Result<Option<bool>> {
    let script = sqlx::query(
        "BEGIN IMMEDIATE;
         UPDATE deliveries SET status = 'pending', due_at = ?3, attempts = 0, finished_at = NULL
         WHERE tenant = ?1 AND id = ?2 AND due_at IS NULL
         AND NOT EXISTS (SELECT 1 FROM idempotency WHERE tenant = ?1 AND scope = ?4 AND key = ?5);
         SELECT changes() FROM deliveries WHERE tenant = ?1 AND id = ?2;
         INSERT INTO idempotency (pk, tenant, scope, key, fingerprint, status, location, created_at, body)
         SELECT 0, ?1, ?4, ?5, ?6, ?7, ?8, ?9, ?10 WHERE changes() = 1 AND ?5 IS NOT NULL;
         COMMIT",
    );
    let script = script.bind(tenant.0).bind(id.as_str().to_owned()).bind(now);
    let found = writer.write(log::with_kept(script, kept)).await?;
    found.first().map(|row| row.try_get(0)).transpose().map_err(unreadable)
}

async fn abandon(
    writer: &Writer,
    tenant: TenantPk,
    kind: TargetKind,
    target: &str,
    why: &str,
    now: Millis,
) -> Result<u64> {
    let update = sqlx::query(
        "UPDATE deliveries SET status = 'dead', due_at = NULL, said = ?4, finished_at = ?5
         WHERE tenant = ?1 AND target_kind = ?2 AND target = ?3 AND due_at IS NOT NULL RETURNING 1",
    );
    let update = update.bind(tenant.0).bind(kind.as_str()).bind(target.to_owned()).bind(why.to_owned()).bind(now);
    Ok(writer.write(update).await?.len() as u64)
}

pub(super) const FORGET: &str = "DELETE FROM deliveries WHERE rowid IN
    (SELECT rowid FROM deliveries WHERE finished_at < ? ORDER BY finished_at LIMIT ?) RETURNING 1";

async fn forget(writer: &Writer, before: Millis, limit: u32) -> Result<u64> {
    Ok(writer.write(sqlx::query(FORGET).bind(before).bind(limit)).await?.len() as u64)
}

fn delivery(row: &SqliteRow) -> Result<Delivery> {
    read(row).map_err(unreadable)?
}

fn read(row: &SqliteRow) -> std::result::Result<Result<Delivery>, sqlx::Error> {
    let (kind, status) =
        (text::target_kind(row.try_get("target_kind")?), text::delivery_status(row.try_get("status")?));
    let attempts: i64 = row.try_get("attempts")?;
    let delivery = Delivery {
        id: row.try_get::<String, _>("id")?.into(),
        tenant: TenantPk(row.try_get("tenant")?),
        thread: ThreadPk(row.try_get("pk")?),
        kind: TargetKind::Webhook,
        target: row.try_get("target")?,
        ordering_key: row.try_get("lane")?,
        event: row.try_get("event")?,
        body: row.try_get("body")?,
        status: DeliveryStatus::Pending,
        due_at: row.try_get("due_at")?,
        attempts: u32::try_from(attempts).unwrap_or(u32::MAX),
        said: row.try_get("said")?,
        created_at: row.try_get("created_at")?,
        finished_at: row.try_get("finished_at")?,
    };
    Ok(kind.and_then(|kind| Ok(Delivery { kind, status: status?, ..delivery })))
}
