//! Spending under the caps.

use async_trait::async_trait;
use rusqlite::{OptionalExtension as _, Transaction, params};

use super::{Sqlite, outbox};
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::domain::spend::Amount;
use crate::store::{NewSpendNotice, PastPeriods, Result, SpendChange, SpendKey, SpendStore, Spent};

const TAKEN: &str = "SELECT used + held FROM spend WHERE tenant = ?1 AND key = ?2 AND period = ?3";

const ROW: &str = "SELECT used, held, told, told_of FROM spend WHERE tenant = ?1 AND key = ?2 AND period = ?3";

const CHANGE: &str = "
INSERT INTO spend (tenant, key, period, used, held, told) VALUES (?1, ?2, ?3, ?4, ?5, 0)
ON CONFLICT (tenant, key, period) DO UPDATE SET used = used + excluded.used, held = held + excluded.held";

/// After a change of the cap all notices are sent again. A row that does not exist has spent nothing, and may have a cap that
/// leaves too little for any run.
const MARK_SENT: &str = "
INSERT INTO spend (tenant, key, period, used, held, told, told_of) VALUES (?1, ?2, ?3, 0, 0, ?4, ?5)
ON CONFLICT (tenant, key, period) DO UPDATE SET told = excluded.told, told_of = excluded.told_of
WHERE spend.told < excluded.told OR spend.told_of NOT IN (0, excluded.told_of)";

/// A row with a reservation is kept, because the call will release it there.
const FORGET: &str = "
DELETE FROM spend WHERE rowid IN (
    SELECT rowid FROM spend
    WHERE tenant = ?1 AND held = 0
        AND (length(period) IN (10, 17) AND period < ?2 OR length(period) IN (7, 14) AND period < ?3)
    LIMIT ?4)";

/// Whether all changes fit under their caps.
pub(super) fn fits(tx: &Transaction<'_>, changes: &[SpendChange]) -> rusqlite::Result<bool> {
    let mut taken = tx.prepare_cached(TAKEN)?;
    for SpendChange { key, used, held, cap, notices: _ } in changes {
        let Some(cap) = cap else { continue };
        let before: Option<i64> =
            taken.query_row(params![key.tenant.0, key.key_name, key.stored_period()], |row| row.get(0)).optional()?;
        if before.unwrap_or(0).saturating_add(*used).saturating_add(*held) > *cap {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Changes the rows, and adds the notices that become due to the outbox.
pub(super) fn change(tx: &Transaction<'_>, changes: &[SpendChange], now: Millis) -> rusqlite::Result<()> {
    for SpendChange { key, used, held, cap: _, notices } in changes {
        tx.prepare_cached(CHANGE)?.execute(params![key.tenant.0, key.key_name, key.stored_period(), used, held])?;
        if notices.is_empty() {
            continue;
        }
        let row = |row: &rusqlite::Row<'_>| Ok(Spent { used: row.get(0)?, held: row.get(1)?, ..key.unspent() });
        let spent = tx.prepare_cached(ROW)?.query_row(params![key.tenant.0, key.key_name, key.stored_period()], row)?;
        for notice in notices.iter().filter(|notice| spent.used >= notice.from) {
            if mark_sent(tx, key, notice.percent, notice.cap)? {
                for new in notice.filled_in(&spent) {
                    outbox::insert(tx, ThreadPk::NONE, key.tenant.0, &new, now)?;
                }
            }
        }
    }
    Ok(())
}

/// Records a notice. `false`: one of at least this percentage of this cap was sent before.
fn mark_sent(tx: &Transaction<'_>, key: &SpendKey, percent: i64, cap: Amount) -> rusqlite::Result<bool> {
    let arguments = params![key.tenant.0, key.key_name, key.stored_period(), percent, cap];
    Ok(tx.prepare_cached(MARK_SENT)?.execute(arguments)? == 1)
}

#[async_trait]
impl SpendStore for Sqlite {
    async fn spent(&self, keys: &[SpendKey]) -> Result<Vec<Spent>> {
        let mut all = Vec::new();
        for key in keys {
            let query = sqlx::query(ROW).bind(key.tenant.0).bind(&key.key_name).bind(key.stored_period());
            let found = query.fetch_optional(&self.readers).await.map_err(self.unreadable())?;
            all.push(found.map_or_else(|| Ok(key.unspent()), |row| Spent::read(key, &row))?);
        }
        Ok(all)
    }

    async fn add_spend_notice(&self, notice: NewSpendNotice) -> Result<bool> {
        let add = move |tx: &Transaction<'_>| {
            let NewSpendNotice { key, percent, cap, now, deliveries } = &notice;
            let is_new = mark_sent(tx, key, *percent, *cap)?;
            for new in deliveries.iter().filter(|_| is_new) {
                outbox::insert(tx, ThreadPk::NONE, key.tenant.0, new, *now)?;
            }
            Ok(is_new)
        };
        self.writer.write(add).await
    }

    async fn forget_spend(&self, tenant: TenantPk, before: &PastPeriods, limit: u32) -> Result<u64> {
        let PastPeriods { day, month } = before.clone();
        let forget =
            move |tx: &Transaction<'_>| tx.prepare_cached(FORGET)?.execute(params![tenant.0, day, month, limit]);
        Ok(self.writer.chore(forget).await? as u64)
    }
}
