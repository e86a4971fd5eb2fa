//! The outbox.

use async_trait::async_trait;
use sqlx::Row as _;

use super::Sqlite;
use super::fault::unreadable;
use super::idempotency::with_kept;
use crate::domain::Millis;
use crate::domain::ids::{DeliveryId, TenantPk};
use crate::store::outbox::{Delivery, OutboxStore, Settled, TargetKind, page_of_deliveries};
use crate::store::{AnswerToStore, Page, PageAsk, Result};

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

const SETTLE: &str = "
UPDATE deliveries SET status = ?3, due_at = ?4, said = ?5, finished_at = iif(?4 IS NULL, ?6, NULL)
WHERE id = ?1 AND attempts = ?2 AND due_at IS NOT NULL RETURNING 1";

const LIST: &str = concat!(
    "SELECT ",
    columns!(),
    ", ord FROM deliveries WHERE tenant = ? AND target_kind = ? AND target = ? AND ord < ? ORDER BY ord DESC LIMIT ?"
);

const REPLAY: &str = "
BEGIN IMMEDIATE;
UPDATE deliveries SET status = 'pending', due_at = ?3, attempts = 0, finished_at = NULL
WHERE tenant = ?1 AND id = ?2 AND due_at IS NULL
AND NOT EXISTS (SELECT 1 FROM idempotency WHERE tenant = ?1 AND scope = ?4 AND key = ?5);
SELECT changes() FROM deliveries WHERE tenant = ?1 AND id = ?2;
INSERT INTO idempotency (pk, tenant, scope, key, fingerprint, status, location, created_at, body)
SELECT 0, ?1, ?4, ?5, ?6, ?7, ?8, ?9, ?10 WHERE changes() = 1 AND ?5 IS NOT NULL;
COMMIT";

const ABANDON: &str = "
UPDATE deliveries SET status = 'dead', due_at = NULL, said = ?4, finished_at = ?5
WHERE tenant = ?1 AND target_kind = ?2 AND target = ?3 AND due_at IS NOT NULL RETURNING 1";

pub(super) const FORGET: &str = "DELETE FROM deliveries WHERE rowid IN
    (SELECT rowid FROM deliveries WHERE finished_at < ? ORDER BY finished_at LIMIT ?) RETURNING 1";

#[async_trait]
impl OutboxStore for Sqlite {
    async fn claim_deliveries(&self, now: Millis, until: Millis, limit: u32) -> Result<Vec<Delivery>> {
        let claimed = self.writer.write(sqlx::query(CLAIM).bind(now).bind(until).bind(i64::from(limit))).await?;
        claimed.iter().map(Delivery::read).collect()
    }

    async fn settle_delivery(
        &self,
        id: &DeliveryId,
        attempt: u32,
        settled: Settled,
        said: &str,
        now: Millis,
    ) -> Result<bool> {
        let (status, due_at) = settled.becomes();
        let update = sqlx::query(SETTLE).bind(id.as_str().to_owned()).bind(i64::from(attempt));
        let update = update.bind(status.as_str()).bind(due_at).bind(said.to_owned()).bind(now);
        Ok(!self.writer.write(update).await?.is_empty())
    }

    async fn next_delivery(&self) -> Result<Option<Millis>> {
        sqlx::query_scalar(NEXT).fetch_optional(&self.readers).await.map_err(unreadable)
    }

    async fn deliveries(
        &self,
        tenant: TenantPk,
        kind: TargetKind,
        target: &str,
        ask: &PageAsk,
    ) -> Result<Page<Delivery>> {
        let query = sqlx::query(LIST).bind(tenant.0).bind(kind.as_str()).bind(target);
        let query = query.bind(ask.before()?).bind(ask.rows());
        page_of_deliveries(&query.fetch_all(&self.readers).await.map_err(unreadable)?, ask)
    }

    async fn replay_delivery(
        &self,
        tenant: TenantPk,
        id: &DeliveryId,
        now: Millis,
        kept: AnswerToStore,
    ) -> Result<Option<bool>> {
        let script = sqlx::query(REPLAY).bind(tenant.0).bind(id.as_str().to_owned()).bind(now);
        let found = self.writer.write(with_kept(script, kept)).await?;
        found.first().map(|row| row.try_get(0)).transpose().map_err(unreadable)
    }

    async fn abandon_deliveries(
        &self,
        tenant: TenantPk,
        kind: TargetKind,
        target: &str,
        why: &str,
        now: Millis,
    ) -> Result<u64> {
        let update = sqlx::query(ABANDON).bind(tenant.0).bind(kind.as_str()).bind(target.to_owned());
        Ok(self.writer.write(update.bind(why.to_owned()).bind(now)).await?.len() as u64)
    }

    async fn forget_deliveries(&self, before: Millis, limit: u32) -> Result<u64> {
        Ok(self.writer.write(sqlx::query(FORGET).bind(before).bind(limit)).await?.len() as u64)
    }
}
