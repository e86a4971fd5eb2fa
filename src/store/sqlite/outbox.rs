//! The outbox.

use async_trait::async_trait;
use rusqlite::{OptionalExtension as _, Transaction, params};
use serde_json::json;

use super::{Sqlite, audit, idempotency};
use crate::domain::Millis;
use crate::domain::ids::{DeliveryId, TenantPk, ThreadPk};
use crate::store::outbox::{
    ABANDONED_AT_ONCE, Abandoned, Abandonment, Delivery, DeliveryStatus, NewDelivery, OutboxReads, OutboxStore,
    Settlement, Share, TargetKind, UNREADABLE, page_of_deliveries,
};
use crate::store::{AuditRow, Page, PageAsk, ResponseToStore, Result};

macro_rules! columns {
    () => {
        "id, tenant, pk, target_kind, target, lane, event, body, status, due_at, attempts, said, created_at, finished_at"
    };
}

/// Deliveries of the bound kinds. `+` keeps SQLite from using an index of kinds, which would read all of a tenant's
/// deliveries.
macro_rules! of_kinds {
    ($kinds:literal) => {
        concat!("+d.target_kind IN (SELECT value FROM json_each(", $kinds, "))")
    };
}

/// Nothing with the same ordering key comes before it.
macro_rules! is_first {
    () => {
        "(d.lane IS NULL OR NOT EXISTS (
            SELECT 1 FROM deliveries e WHERE e.lane = d.lane AND e.ord < d.ord AND e.due_at IS NOT NULL))"
    };
}

/// The tenants with open deliveries, found by stepping through the index: only one delivery of each tenant is read.
macro_rules! open_tenants {
    () => {
        "WITH RECURSIVE open (tenant) AS (
             SELECT min(tenant) FROM deliveries WHERE due_at IS NOT NULL AND target_kind <> 'collector'
             UNION ALL
             SELECT (SELECT min(d.tenant) FROM deliveries d
                     WHERE d.tenant > o.tenant AND d.due_at IS NOT NULL AND d.target_kind <> 'collector')
             FROM open o WHERE o.tenant IS NOT NULL
         )"
    };
}

/// For each tenant, reads the deliveries up to the first that can be made.
pub(super) const TENANTS_DUE: &str = concat!(
    open_tenants!(),
    "SELECT o.tenant FROM open o WHERE o.tenant IS NOT NULL AND EXISTS (
         SELECT 1 FROM deliveries d
         WHERE d.tenant = o.tenant AND d.due_at <= ?1 AND d.due_at IS NOT NULL AND d.target_kind <> 'collector' AND ",
    of_kinds!("?2"),
    " AND ",
    is_first!(),
    ")"
);

pub(super) const CLAIM: &str = concat!(
    "UPDATE deliveries SET due_at = ?2, attempts = attempts + 1
     WHERE ord IN (
         SELECT d.ord FROM deliveries d
         WHERE d.tenant = ?3 AND d.due_at <= ?1 AND d.due_at IS NOT NULL AND d.target_kind <> 'collector' AND ",
    of_kinds!("?5"),
    " AND ",
    is_first!(),
    " ORDER BY d.due_at, d.ord LIMIT ?4)
     RETURNING ",
    columns!(),
    ", ord"
);

pub(super) const CLAIM_BATCH: &str = concat!(
    "UPDATE deliveries SET due_at = ?2, attempts = attempts + 1
     WHERE ord IN (
         SELECT d.ord FROM deliveries d
         WHERE d.due_at <= ?1 AND d.due_at IS NOT NULL AND d.target_kind = 'collector' AND ",
    is_first!(),
    " ORDER BY d.due_at, d.ord LIMIT ?3)
     RETURNING ",
    columns!(),
    ", ord"
);

pub(super) const NEXT_SINGLE: &str = concat!(
    open_tenants!(),
    "SELECT min(due_at) FROM (SELECT (
         SELECT d.due_at FROM deliveries d
         WHERE d.tenant = o.tenant AND d.due_at IS NOT NULL AND d.target_kind <> 'collector' AND ",
    of_kinds!("?1"),
    " AND ",
    is_first!(),
    " ORDER BY d.due_at LIMIT 1) AS due_at FROM open o WHERE o.tenant IS NOT NULL)"
);

pub(super) const NEXT_BATCHED: &str = concat!(
    "SELECT min(due_at) FROM (
         SELECT d.due_at FROM deliveries d WHERE d.due_at IS NOT NULL AND d.target_kind = 'collector' AND ",
    is_first!(),
    " ORDER BY d.due_at LIMIT 1)"
);

const SETTLE: &str = "
UPDATE deliveries SET status = ?3, due_at = ?4, said = ?5, finished_at = iif(?4 IS NULL, ?6, NULL)
WHERE id = ?1 AND attempts = ?2 AND due_at IS NOT NULL";

/// When a delivery is postponed, later ones of its ordering key are postponed with it, so that no poll reads them before it.
/// They are due again when it is claimed.
pub(super) const PUT_OFF: &str = "
UPDATE deliveries SET due_at = ?2 WHERE ord IN (
    SELECT f.ord FROM deliveries h CROSS JOIN deliveries f
    WHERE h.id = ?1 AND f.lane = h.lane AND f.lane IS NOT NULL AND f.ord > h.ord AND f.due_at IS NOT NULL AND f.due_at < ?2
    ORDER BY f.ord LIMIT 1000)";

const LIST: &str = concat!(
    "SELECT ",
    columns!(),
    ", ord FROM deliveries WHERE tenant = ? AND target_kind = ? AND target = ? AND ord < ? ORDER BY ord DESC LIMIT ?"
);

/// Reads a page of each of these statuses.
pub(super) const LIST_OF_TENANT: &str = concat!(
    "SELECT ",
    columns!(),
    ", ord FROM deliveries WHERE ord IN (
         SELECT d.ord FROM json_each(?3) w CROSS JOIN deliveries d ON d.ord IN (
             SELECT ord FROM deliveries WHERE tenant = ?1 AND target_kind = ?2 AND status = w.value AND ord < ?4
             ORDER BY ord DESC LIMIT ?5))
     ORDER BY ord DESC LIMIT ?5"
);

const END: &str = "UPDATE deliveries SET status = 'dead', due_at = NULL, said = ?2, finished_at = ?3 WHERE ord = ?1";

const IS_FINISHED: &str = "SELECT due_at IS NULL FROM deliveries WHERE tenant = ?1 AND id = ?2";

const REPLAY: &str = "
UPDATE deliveries SET status = 'pending', due_at = ?3, attempts = 0, finished_at = NULL WHERE tenant = ?1 AND id = ?2";

/// Read beside the writer: it also passes the finished deliveries of the target.
pub(super) const PENDING_OF_TARGET: &str = "
SELECT ord FROM deliveries WHERE tenant = ?1 AND target_kind = ?2 AND target = ?3 AND ord > ?4 AND +due_at IS NOT NULL
ORDER BY ord LIMIT ?5";

const ABANDON: &str = "
UPDATE deliveries SET status = 'dead', due_at = NULL, said = ?2, finished_at = ?3
WHERE ord IN (SELECT value FROM json_each(?1)) AND +due_at IS NOT NULL";

pub(super) const FORGET: &str = "DELETE FROM deliveries WHERE rowid IN
    (SELECT rowid FROM deliveries WHERE finished_at < ? ORDER BY finished_at LIMIT ?)";

/// Stores a delivery that is due at once.
pub(super) fn insert(
    tx: &Transaction<'_>,
    thread: ThreadPk,
    tenant: i64,
    new: &NewDelivery,
    now: Millis,
) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "INSERT INTO deliveries (pk, tenant, id, target_kind, target, lane, event, status, due_at, attempts,
            created_at, body)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'pending', ?8, 0, ?8, ?9)",
    )?
    .execute(params![
        thread.0,
        tenant,
        new.id.as_str(),
        new.kind.as_str(),
        new.target,
        new.ordering_key,
        new.event,
        now,
        new.body,
    ])?;
    Ok(())
}

fn names(kinds: &[TargetKind]) -> String {
    json!(TargetKind::names(kinds)).to_string()
}

/// A claimed delivery, or the `ord` of one that cannot be read.
fn read_claimed(row: &rusqlite::Row<'_>) -> rusqlite::Result<std::result::Result<Delivery, i64>> {
    Ok(Delivery::read_claimed(row, row.get("ord")?))
}

/// The claimed deliveries. Those that cannot be read are ended.
fn legible(
    tx: &Transaction<'_>,
    claimed: Vec<std::result::Result<Delivery, i64>>,
    now: Millis,
) -> rusqlite::Result<Vec<Delivery>> {
    let mut legible = Vec::with_capacity(claimed.len());
    for read in claimed {
        match read {
            Ok(delivery) => legible.push(delivery),
            Err(ord) => {
                tx.prepare_cached(END)?.execute(params![ord, UNREADABLE, now])?;
            }
        }
    }
    Ok(legible)
}

#[async_trait]
impl OutboxReads for Sqlite {
    async fn tenants_due(&self, now: Millis) -> Result<Vec<TenantPk>> {
        let query = sqlx::query_scalar(TENANTS_DUE).bind(now).bind(names(TargetKind::SINGLE));
        let found: Vec<i64> = query.fetch_all(&self.readers).await.map_err(self.unreadable())?;
        Ok(found.into_iter().map(TenantPk).collect())
    }

    async fn next_single(&self) -> Result<Option<Millis>> {
        let query = sqlx::query_scalar(NEXT_SINGLE).bind(names(TargetKind::SINGLE));
        query.fetch_one(&self.readers).await.map_err(self.unreadable())
    }

    async fn next_batched(&self) -> Result<Option<Millis>> {
        sqlx::query_scalar(NEXT_BATCHED).fetch_one(&self.readers).await.map_err(self.unreadable())
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
        page_of_deliveries(&query.fetch_all(&self.readers).await.map_err(self.unreadable())?, ask)
    }

    async fn deliveries_of_tenant(
        &self,
        tenant: TenantPk,
        kind: TargetKind,
        status: Option<DeliveryStatus>,
        ask: &PageAsk,
    ) -> Result<Page<Delivery>> {
        let query = sqlx::query(LIST_OF_TENANT).bind(tenant.0).bind(kind.as_str());
        let query = query.bind(json!(DeliveryStatus::wanted(status)).to_string()).bind(ask.before()?).bind(ask.rows());
        page_of_deliveries(&query.fetch_all(&self.readers).await.map_err(self.unreadable())?, ask)
    }
}

#[async_trait]
impl OutboxStore for Sqlite {
    async fn claim_deliveries(&self, shares: &[Share], now: Millis, until: Millis) -> Result<Vec<Delivery>> {
        let shares = shares.to_vec();
        let claim = move |tx: &Transaction<'_>| {
            let (mut statement, mut claimed) = (tx.prepare_cached(CLAIM)?, Vec::new());
            let kinds = names(TargetKind::SINGLE);
            for Share { tenant, most } in shares {
                let of_tenant = statement.query_map(params![now, until, tenant.0, most, kinds], read_claimed)?;
                claimed.extend(of_tenant.collect::<rusqlite::Result<Vec<_>>>()?);
            }
            legible(tx, claimed, now)
        };
        self.writer.write(claim).await
    }

    async fn claim_batch(&self, now: Millis, until: Millis, limit: u32) -> Result<Vec<Delivery>> {
        let claim = move |tx: &Transaction<'_>| {
            let mut statement = tx.prepare_cached(CLAIM_BATCH)?;
            let claimed = statement.query_map(params![now, until, limit], read_claimed)?;
            legible(tx, claimed.collect::<rusqlite::Result<Vec<_>>>()?, now)
        };
        self.writer.write(claim).await
    }

    async fn settle_deliveries(&self, settlements: Vec<Settlement>, now: Millis) -> Result<usize> {
        let settle = move |tx: &Transaction<'_>| {
            let (mut settle, mut put_off, mut settled) = (tx.prepare_cached(SETTLE)?, tx.prepare_cached(PUT_OFF)?, 0);
            for Settlement { id, attempt, settled: came_to, said } in &settlements {
                let (status, due_at) = came_to.becomes();
                let changed = settle.execute(params![id.as_str(), attempt, status.as_str(), due_at, said, now])?;
                if changed > 0 && due_at.is_some() {
                    put_off.execute(params![id.as_str(), due_at])?;
                }
                settled += changed;
            }
            Ok(settled)
        };
        self.writer.write(settle).await
    }

    async fn replay_delivery(
        &self,
        tenant: TenantPk,
        id: &DeliveryId,
        now: Millis,
        audit: AuditRow,
        response: ResponseToStore,
    ) -> Result<Option<bool>> {
        let id = id.clone();
        let replay = move |tx: &Transaction<'_>| {
            let found = tx.prepare_cached(IS_FINISHED)?.query_row(params![tenant.0, id.as_str()], |row| row.get(0));
            let Some(is_finished): Option<bool> = found.optional()? else { return Ok(None) };
            let is_taken = response.as_ref().map(|key| idempotency::is_taken(tx, key)).transpose()?.unwrap_or(false);
            if !is_finished || is_taken {
                return Ok(Some(false));
            }
            tx.prepare_cached(REPLAY)?.execute(params![tenant.0, id.as_str(), now])?;
            audit::insert(tx, &audit)?;
            if let Some(key) = &response {
                idempotency::insert(tx, ThreadPk::NONE, key)?;
            }
            Ok(Some(true))
        };
        self.writer.write(replay).await
    }

    async fn abandon_deliveries(&self, abandonment: &Abandonment<'_>, behind: i64) -> Result<Abandoned> {
        let &Abandonment { tenant, kind, target, why, now } = abandonment;
        let query = sqlx::query_scalar(PENDING_OF_TARGET).bind(tenant.0).bind(kind.as_str()).bind(target);
        let query = query.bind(behind).bind(ABANDONED_AT_ONCE);
        let pending: Vec<i64> = query.fetch_all(&self.readers).await.map_err(self.unreadable())?;
        let next = pending.last().copied().filter(|_| pending.len() >= ABANDONED_AT_ONCE as usize);
        let (pending, why) = (json!(pending).to_string(), why.to_owned());
        let abandon = move |tx: &Transaction<'_>| tx.prepare_cached(ABANDON)?.execute(params![pending, why, now]);
        Ok(Abandoned { count: self.writer.chore(abandon).await? as u64, next })
    }

    async fn forget_deliveries(&self, before: Millis, limit: u32) -> Result<u64> {
        let forget = move |tx: &Transaction<'_>| tx.prepare_cached(FORGET)?.execute(params![before, limit]);
        Ok(self.writer.chore(forget).await? as u64)
    }
}
