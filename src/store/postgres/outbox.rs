//! The outbox.

use async_trait::async_trait;
use sqlx::{Connection, PgConnection};

use super::fault::error;
use super::nul::escaped;
use super::pool::PgQuery;
use super::{Postgres, audit, idempotency};
use crate::domain::Millis;
use crate::domain::ids::{DeliveryId, TenantPk, ThreadPk};
use crate::store::columns::Columns as _;
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

/// Deliveries of the bound kinds. `IS TRUE` keeps the planner from using an index of kinds, which would read all of a
/// tenant's.
macro_rules! of_kinds {
    ($kinds:literal) => {
        concat!("(d.target_kind = ANY(", $kinds, ")) IS TRUE")
    };
}

/// Nothing with the same ordering key comes before it.
macro_rules! is_first {
    () => {
        "(d.lane IS NULL OR NOT EXISTS (
            SELECT FROM deliveries e WHERE e.lane = d.lane AND e.ord < d.ord AND e.due_at IS NOT NULL))"
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

/// For each tenant, reads the deliveries up to the first that can be made. `EXISTS` would become a join with all due ones.
const TENANTS_DUE: &str = concat!(
    open_tenants!(),
    "SELECT o.tenant FROM open o CROSS JOIN LATERAL (
        SELECT FROM deliveries d
        WHERE d.tenant = o.tenant AND d.due_at <= $1 AND d.due_at IS NOT NULL AND d.target_kind <> 'collector' AND ",
    of_kinds!("$2"),
    " AND ",
    is_first!(),
    " LIMIT 1) d"
);

/// Skips rows that another replica is claiming now.
const CLAIM: &str = concat!(
    "WITH due AS (
        SELECT o.ord FROM UNNEST($3::bigint[], $4::int[]) AS s (tenant, most) CROSS JOIN LATERAL (
            SELECT d.ord FROM deliveries d
            WHERE d.tenant = s.tenant AND d.due_at <= $1 AND d.due_at IS NOT NULL AND d.target_kind <> 'collector' AND ",
    of_kinds!("$5"),
    " AND ",
    is_first!(),
    "       ORDER BY d.due_at, d.ord LIMIT s.most FOR UPDATE OF d SKIP LOCKED) o
    )
    UPDATE deliveries SET due_at = $2, attempts = attempts + 1 FROM due WHERE deliveries.ord = due.ord RETURNING ",
    columns!(),
    ", deliveries.ord"
);

/// Skips locked rows, too.
const CLAIM_BATCH: &str = concat!(
    "WITH due AS (
        SELECT d.ord FROM deliveries d
        WHERE d.due_at <= $1 AND d.due_at IS NOT NULL AND d.target_kind = 'collector' AND ",
    is_first!(),
    "   ORDER BY d.due_at, d.ord LIMIT $3 FOR UPDATE OF d SKIP LOCKED
    )
    UPDATE deliveries SET due_at = $2, attempts = attempts + 1 FROM due WHERE deliveries.ord = due.ord RETURNING ",
    columns!(),
    ", deliveries.ord"
);

const NEXT_SINGLE: &str = concat!(
    open_tenants!(),
    "SELECT min(d.due_at) FROM open o CROSS JOIN LATERAL (
        SELECT d.due_at FROM deliveries d
        WHERE d.tenant = o.tenant AND d.due_at IS NOT NULL AND d.target_kind <> 'collector' AND ",
    of_kinds!("$1"),
    " AND ",
    is_first!(),
    "   ORDER BY d.due_at, d.ord LIMIT 1) d"
);

const NEXT_BATCHED: &str = concat!(
    "SELECT min(d.due_at) FROM (
        SELECT d.due_at FROM deliveries d WHERE d.due_at IS NOT NULL AND d.target_kind = 'collector' AND ",
    is_first!(),
    "   ORDER BY d.due_at, d.ord LIMIT 1) d"
);

/// A plain join would read all due deliveries. When a delivery is postponed, later ones of its ordering key are postponed
/// with it, so that no poll reads them before it; they are due again when it is claimed. A locked row of them is being
/// finished by another process.
const SETTLE: &str = "
WITH settled AS (
    UPDATE deliveries d
    SET status = s.status, due_at = s.due_at, said = s.said, finished_at = CASE WHEN s.due_at IS NULL THEN $6 END
    FROM UNNEST($1::text[], $2::int[], $3::text[], $4::bigint[], $5::text[]) AS s (id, attempt, status, due_at, said)
    WHERE d.ctid = ANY (ARRAY(
            SELECT e.place FROM UNNEST($1::text[]) w (id) CROSS JOIN LATERAL (
                SELECT ctid AS place FROM deliveries WHERE id = w.id LIMIT 1) e))
        AND d.id = s.id AND d.attempts = s.attempt AND (d.due_at IS NOT NULL) IS TRUE
    RETURNING d.lane, d.ord, d.due_at
), behind AS (
    SELECT e.place, e.ord, s.due_at FROM settled s CROSS JOIN LATERAL (
        SELECT ctid AS place, ord FROM deliveries
        WHERE lane = s.lane AND ord > s.ord AND due_at IS NOT NULL AND due_at < s.due_at AND id <> ALL ($1)
        ORDER BY ord LIMIT 1000 FOR UPDATE SKIP LOCKED) e
), put_off AS (
    UPDATE deliveries d SET due_at = b.due_at FROM behind b
    WHERE d.ctid = ANY (ARRAY(SELECT place FROM behind)) AND d.ord = b.ord
)
SELECT count(*) FROM settled";

/// Reads a page of each of these statuses.
const LIST_OF_TENANT: &str = concat!(
    "SELECT d.* FROM UNNEST($3::text[]) w (status) CROSS JOIN LATERAL (
        SELECT ",
    columns!(),
    "   , ord FROM deliveries WHERE tenant = $1 AND target_kind = $2 AND status = w.status AND ord < $4
        ORDER BY ord DESC LIMIT $5) d
    ORDER BY d.ord DESC LIMIT $5"
);

const LIST: &str = concat!(
    "SELECT ",
    columns!(),
    ", ord FROM deliveries
    WHERE tenant = $1 AND target_kind = $2 AND target = $3 AND ord < $4 ORDER BY ord DESC LIMIT $5"
);

const REPLAY: &str = "
WITH found AS (
    SELECT ord, due_at IS NULL AS is_over FROM deliveries WHERE tenant = $1 AND id = $2 FOR UPDATE
), again AS (
    UPDATE deliveries d SET status = 'pending', due_at = $3, attempts = 0, finished_at = NULL
    FROM found WHERE d.ord = found.ord AND found.is_over
)
SELECT is_over FROM found";

const ABANDON: &str = "
WITH pending AS (
    SELECT ord FROM deliveries
    WHERE tenant = $1 AND target_kind = $2 AND target = $3 AND ord > $6 AND due_at IS NOT NULL
    ORDER BY ord LIMIT $7 FOR UPDATE
), ended AS (
    UPDATE deliveries d SET status = 'dead', due_at = NULL, said = $4, finished_at = $5
    FROM pending WHERE d.ord = pending.ord
)
SELECT count(*) AS count, max(ord) AS last FROM pending";

const END: &str =
    "UPDATE deliveries SET status = 'dead', due_at = NULL, said = $2, finished_at = $3 WHERE ord = ANY ($1)";

const INSERT: &str = "
INSERT INTO deliveries (pk, tenant, due_at, created_at, attempts, id, target_kind, target, lane, event, status, body)
VALUES ($1, $2, $3, $3, 0, $4, $5, $6, $7, $8, 'pending', $9)";

const FORGET: &str = "
DELETE FROM deliveries WHERE ord IN (
    SELECT ord FROM deliveries WHERE finished_at < $1 ORDER BY finished_at LIMIT $2 FOR UPDATE SKIP LOCKED)";

#[async_trait]
impl OutboxReads for Postgres {
    async fn tenants_due(&self, now: Millis) -> Result<Vec<TenantPk>> {
        let query = sqlx::query_scalar(TENANTS_DUE).bind(now).bind(TargetKind::names(TargetKind::SINGLE));
        let found = self.pool.fetch_scalars(query).await?;
        Ok(found.into_iter().map(TenantPk).collect())
    }

    async fn next_single(&self) -> Result<Option<Millis>> {
        let query = sqlx::query_scalar(NEXT_SINGLE).bind(TargetKind::names(TargetKind::SINGLE));
        self.pool.fetch_scalar(query).await
    }

    async fn next_batched(&self) -> Result<Option<Millis>> {
        let query = sqlx::query_scalar(NEXT_BATCHED);
        self.pool.fetch_scalar(query).await
    }

    async fn deliveries(
        &self,
        tenant: TenantPk,
        kind: TargetKind,
        target: &str,
        ask: &PageAsk,
    ) -> Result<Page<Delivery>> {
        let query = sqlx::query(LIST).bind(tenant.0).bind(kind.as_str()).bind(escaped(target));
        let query = query.bind(ask.before()?).bind(ask.rows());
        page_of_deliveries(&self.pool.fetch_all(query).await?, ask)
    }

    async fn deliveries_of_tenant(
        &self,
        tenant: TenantPk,
        kind: TargetKind,
        status: Option<DeliveryStatus>,
        ask: &PageAsk,
    ) -> Result<Page<Delivery>> {
        let query = sqlx::query(LIST_OF_TENANT).bind(tenant.0).bind(kind.as_str());
        let query = query.bind(DeliveryStatus::wanted(status)).bind(ask.before()?).bind(ask.rows());
        page_of_deliveries(&self.pool.fetch_all(query).await?, ask)
    }
}

#[async_trait]
impl OutboxStore for Postgres {
    async fn claim_deliveries(&self, shares: &[Share], now: Millis, until: Millis) -> Result<Vec<Delivery>> {
        let tenants: Vec<i64> = shares.iter().map(|share| share.tenant.0).collect();
        let most: Vec<i32> = shares.iter().map(|share| i32::try_from(share.most).unwrap_or(i32::MAX)).collect();
        let query = sqlx::query(CLAIM).bind(now).bind(until).bind(tenants).bind(most);
        self.claim(query.bind(TargetKind::names(TargetKind::SINGLE)), now).await
    }

    async fn claim_batch(&self, now: Millis, until: Millis, limit: u32) -> Result<Vec<Delivery>> {
        let query = sqlx::query(CLAIM_BATCH).bind(now).bind(until).bind(i64::from(limit));
        self.claim(query, now).await
    }

    async fn settle_deliveries(&self, settlements: Vec<Settlement>, now: Millis) -> Result<usize> {
        let (mut ids, mut attempts, mut statuses) = (Vec::new(), Vec::new(), Vec::new());
        let (mut dues, mut saids) = (Vec::new(), Vec::new());
        for Settlement { id, attempt, settled, said } in &settlements {
            let (status, due_at) = settled.becomes();
            ids.push(id.as_str());
            attempts.push(*attempt as i32);
            statuses.push(status.as_str());
            dues.push(due_at);
            saids.push(escaped(said));
        }
        let update =
            sqlx::query_scalar(SETTLE).bind(ids).bind(attempts).bind(statuses).bind(dues).bind(saids).bind(now);
        let settled: i64 = self.pool.fetch_scalar(update).await?;
        Ok(usize::try_from(settled).unwrap_or_default())
    }

    async fn replay_delivery(
        &self,
        tenant: TenantPk,
        id: &DeliveryId,
        now: Millis,
        audit: AuditRow,
        response: ResponseToStore,
    ) -> Result<Option<bool>> {
        self.pool.with_connection(async |connection| replay(connection, tenant, id, now, audit, response).await).await
    }

    async fn abandon_deliveries(&self, abandonment: &Abandonment<'_>, behind: i64) -> Result<Abandoned> {
        let &Abandonment { tenant, kind, target, why, now } = abandonment;
        let query = sqlx::query(ABANDON).bind(tenant.0).bind(kind.as_str()).bind(escaped(target));
        let query = query.bind(why).bind(now).bind(behind).bind(i64::from(ABANDONED_AT_ONCE));
        let row = self.pool.fetch_one(query).await?;
        let (count, last) = (row.count("count")?, row.number_or_none("last")?);
        Ok(Abandoned { count, next: last.filter(|_| count >= u64::from(ABANDONED_AT_ONCE)) })
    }

    async fn forget_deliveries(&self, before: Millis, limit: u32) -> Result<u64> {
        let delete = sqlx::query(FORGET).bind(before).bind(i64::from(limit));
        self.pool.execute(delete).await
    }
}

impl Postgres {
    async fn claim(&self, claim: PgQuery<'_>, now: Millis) -> Result<Vec<Delivery>> {
        let found = self.pool.fetch_all(claim).await?;
        let (mut claimed, mut unreadable) = (Vec::with_capacity(found.len()), Vec::new());
        for row in &found {
            match Delivery::read_claimed(row, row.number("ord")?) {
                Ok(delivery) => claimed.push(delivery),
                Err(ord) => unreadable.push(ord),
            }
        }
        if !unreadable.is_empty() {
            let end = sqlx::query(END).bind(unreadable).bind(UNREADABLE).bind(now);
            self.pool.execute(end).await?;
        }
        Ok(claimed)
    }
}

/// Adds deliveries outside of a commit, which is rare, so one statement per delivery is enough.
pub(super) async fn insert_all(
    connection: &mut PgConnection,
    (thread, tenant): (ThreadPk, TenantPk),
    now: Millis,
    deliveries: &[NewDelivery],
) -> Result<()> {
    for new in deliveries {
        let insert = sqlx::query(INSERT).bind(thread.0).bind(tenant.0).bind(now).bind(new.id.as_str());
        let insert =
            insert.bind(new.kind.as_str()).bind(escaped(&new.target)).bind(new.ordering_key.as_deref().map(escaped));
        insert.bind(&new.event).bind(&new.body).execute(&mut *connection).await.map_err(error)?;
    }
    Ok(())
}

async fn replay(
    connection: &mut PgConnection,
    tenant: TenantPk,
    id: &DeliveryId,
    now: Millis,
    audit: AuditRow,
    response: ResponseToStore,
) -> Result<Option<bool>> {
    // Dropped without a commit, it is rolled back.
    let mut transaction = connection.begin().await.map_err(error)?;
    let query = sqlx::query_scalar(REPLAY).bind(tenant.0).bind(escaped(id.as_str())).bind(now);
    let is_over = query.fetch_optional(&mut *transaction).await.map_err(error)?;
    if let (Some(true), Some(response)) = (is_over, response)
        && !idempotency::insert(&mut transaction, response).await?
    {
        return Ok(Some(false));
    }
    if is_over == Some(true) {
        audit::insert(&mut transaction, &audit).await?;
    }
    transaction.commit().await.map_err(error)?;
    Ok(is_over)
}
