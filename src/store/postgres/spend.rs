//! Spending under the caps.

use async_trait::async_trait;
use sqlx::Connection;
use sqlx::postgres::PgConnection;

use super::fault::error;
use super::nul::escaped;
use super::pool::PgQuery;
use super::{Postgres, outbox};
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::domain::spend::Amount;
use crate::store::{NewSpendNotice, PastPeriods, Result, SpendChange, SpendKey, SpendStore, Spent};

/// In the order of their keys, in which all transactions lock them.
const OPEN: &str = "
INSERT INTO spend (tenant, key, period, used, held, told)
SELECT DISTINCT tenant, key, period, 0, 0, 0 FROM unnest($1::bigint[], $2::text[], $3::text[]) AS s (tenant, key, period)
ORDER BY 1, 2, 3
ON CONFLICT DO NOTHING";

const CHANGE: &str = "
UPDATE spend SET used = used + $4, held = held + $5 WHERE tenant = $1 AND key = $2 AND period = $3";

/// After a change of the cap all notices are sent again. A row that does not exist has spent nothing, and may have a cap that
/// leaves too little for any run.
const MARK_SENT: &str = "
INSERT INTO spend (tenant, key, period, used, held, told, told_of) VALUES ($1, $2, $3, 0, 0, $4, $5)
ON CONFLICT (tenant, key, period) DO UPDATE SET told = excluded.told, told_of = excluded.told_of
WHERE spend.told < excluded.told OR spend.told_of NOT IN (0, excluded.told_of)";

const ROW: &str = "SELECT used, held, told, told_of FROM spend WHERE tenant = $1 AND key = $2 AND period = $3";

/// A row with a reservation is kept, because the call will release it there.
const FORGET: &str = "
DELETE FROM spend WHERE (tenant, key, period) IN (
    SELECT tenant, key, period FROM spend
    WHERE tenant = $1 AND held = 0
        AND (length(period) IN (10, 17) AND period < $2 OR length(period) IN (7, 14) AND period < $3)
    LIMIT $4 FOR UPDATE SKIP LOCKED)";

/// Inserts missing rows, so that a batch can lock all of them.
pub(super) fn open<'a>(changes: impl Iterator<Item = &'a SpendChange> + Clone) -> PgQuery<'static> {
    sqlx::query(OPEN)
        .bind(changes.clone().map(|change| change.key.tenant.0).collect::<Vec<i64>>())
        .bind(changes.clone().map(|change| escaped(&change.key.key_name).into_owned()).collect::<Vec<String>>())
        .bind(changes.map(|change| change.key.stored_period()).collect::<Vec<String>>())
}

/// Changes the rows for a deleted thread, in the order of their keys, and adds the notices that become due to the
/// outbox.
pub(super) async fn change(connection: &mut PgConnection, changes: &[SpendChange], now: Millis) -> Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    open(changes.iter()).execute(&mut *connection).await.map_err(error)?;
    for SpendChange { key, used, held, cap: _, notices } in changes {
        let change = sqlx::query(CHANGE).bind(key.tenant.0).bind(escaped(&key.key_name)).bind(key.stored_period());
        change.bind(used).bind(held).execute(&mut *connection).await.map_err(error)?;
        if notices.is_empty() {
            continue;
        }
        let row = sqlx::query(ROW).bind(key.tenant.0).bind(escaped(&key.key_name)).bind(key.stored_period());
        let spent = Spent::read(key, &row.fetch_one(&mut *connection).await.map_err(error)?)?;
        for notice in notices.iter().filter(|notice| spent.used >= notice.from) {
            if mark_sent(&mut *connection, key, notice.percent, notice.cap).await? {
                let deliveries: Vec<_> = notice.filled_in(&spent).collect();
                outbox::insert_all(&mut *connection, (ThreadPk::NONE, key.tenant), now, &deliveries).await?;
            }
        }
    }
    Ok(())
}

/// Records a notice. `false`: one of at least this percentage of this cap was sent before.
async fn mark_sent(connection: &mut PgConnection, key: &SpendKey, percent: i64, cap: Amount) -> Result<bool> {
    let mark = sqlx::query(MARK_SENT).bind(key.tenant.0).bind(escaped(&key.key_name)).bind(key.stored_period());
    let marked = mark.bind(percent).bind(cap).execute(connection).await.map_err(error)?;
    Ok(marked.rows_affected() == 1)
}

async fn add_notice(connection: &mut PgConnection, notice: &NewSpendNotice) -> Result<bool> {
    let NewSpendNotice { key, percent, cap, now, deliveries } = notice;
    // Dropped without a commit, it is rolled back.
    let mut transaction = connection.begin().await.map_err(error)?;
    let is_new = mark_sent(&mut transaction, key, *percent, *cap).await?;
    if is_new {
        outbox::insert_all(&mut transaction, (ThreadPk::NONE, key.tenant), *now, deliveries).await?;
    }
    transaction.commit().await.map_err(error)?;
    Ok(is_new)
}

#[async_trait]
impl SpendStore for Postgres {
    async fn spent(&self, keys: &[SpendKey]) -> Result<Vec<Spent>> {
        let mut all = Vec::new();
        for key in keys {
            let query = sqlx::query(ROW).bind(key.tenant.0).bind(escaped(&key.key_name)).bind(key.stored_period());
            let found = self.pool.fetch_optional(query).await?;
            all.push(found.map_or_else(|| Ok(key.unspent()), |row| Spent::read(key, &row))?);
        }
        Ok(all)
    }

    async fn add_spend_notice(&self, notice: NewSpendNotice) -> Result<bool> {
        self.pool.with_connection(async |connection| add_notice(connection, &notice).await).await
    }

    async fn forget_spend(&self, tenant: TenantPk, before: &PastPeriods, limit: u32) -> Result<u64> {
        let query = sqlx::query(FORGET).bind(tenant.0).bind(&before.day).bind(&before.month).bind(i64::from(limit));
        self.pool.execute(query).await
    }
}
