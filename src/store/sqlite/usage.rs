//! Sums of the usage of model calls.

use async_trait::async_trait;
use rusqlite::{Transaction, params};
use serde_json::json;

use super::fault::unreadable;
use super::{Sqlite, spend};
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::domain::usage::{ModelUse, UsageSum};
use crate::store::usage::{page_of_sums, read_calls};
use crate::store::{Page, Result, SpendChange, UsageAsk, UsageStore};

macro_rules! sums {
    ($calls:literal) => {
        concat!(
            "
SELECT CASE ?1 WHEN 'run' THEN r.body ->> 'run' WHEN 'run,model' THEN r.body ->> 'run' WHEN 'item' THEN r.body ->> 'run' WHEN 'model' THEN r.body ->> 'provider'
        WHEN 'tenant' THEN t.name ELSE date(r.ord / 1000, 'unixepoch') END AS key,
    CASE ?1 WHEN 'item' THEN coalesce(r.body ->> 'item', '') WHEN 'model' THEN r.body ->> 'model'
        WHEN 'run,model' THEN (r.body ->> 'provider') || ':' || (r.body ->> 'model') ELSE '' END AS sub,
    count(*) AS calls, sum(r.body ->> 'inputTokens') AS input, sum(r.body ->> 'outputTokens') AS output,
    sum(r.body ->> 'thinkingTokens') AS thinking, sum(r.body ->> 'cachedInputTokens') AS cached,
    coalesce(sum(r.body ->> 'costNanos'), 0) AS cost, count(*) - count(r.body ->> 'costNanos') AS unpriced
FROM (",
            $calls,
            ") r JOIN tenants t ON t.pk = r.tenant
GROUP BY 1, 2 HAVING (key, sub) > (?5, ?6) ORDER BY 1, 2 LIMIT ?7"
        )
    };
}

const SUMS: &str = sums!(
    "SELECT tenant, ord, body FROM thread_rows WHERE kind = 11 AND tenant = ?2 AND ord >= ?3 AND ord < ?4
         AND json_valid(body)
     UNION ALL SELECT tenant, ord, body FROM usage_kept WHERE tenant = ?2 AND ord >= ?3 AND ord < ?4
         AND json_valid(body)"
);

/// `+`, so that SQLite reads the thread's rows, and not all calls of the tenant.
pub(super) const SUMS_OF_THREAD: &str = sums!(
    "SELECT tenant, ord, body FROM thread_rows WHERE pk = ?8 AND kind = 11 AND +tenant = ?2 AND ord >= ?3 AND ord < ?4
         AND json_valid(body)"
);

const LATEST: &str = "
SELECT body FROM thread_rows WHERE kind = 11 AND tenant = ? AND ord >= ? ORDER BY ord DESC LIMIT ?";

pub(super) const ADD: &str = "INSERT INTO usage_kept (tenant, ord, body) VALUES (?1, ?2, ?3)";

/// Usage of existing threads, except those on hold, those with terms of their own that keep them for ever, and those whose
/// terms cannot be read.
const FORGET_IN_USE: &str = "
DELETE FROM thread_rows WHERE rowid IN (
    SELECT u.rowid FROM thread_rows u WHERE u.kind = 11 AND u.tenant = ?1 AND u.ord < ?2 AND NOT EXISTS (
        SELECT 1 FROM thread_rows h WHERE h.pk = u.pk AND h.kind = 14
            AND iif(json_valid(h.body), h.body ->> '$.hold' IS NOT NULL OR h.body ->> '$.terms.threadDays' = 'forever', 1))
    ORDER BY u.ord LIMIT ?3)";

const FORGET: &str = "
DELETE FROM usage_kept WHERE rowid IN (SELECT rowid FROM usage_kept WHERE tenant = ?1 AND ord < ?2 ORDER BY ord LIMIT ?3)";

#[async_trait]
impl UsageStore for Sqlite {
    async fn usage(&self, ask: &UsageAsk) -> Result<Page<UsageSum>> {
        let (key, sub) = ask.after()?;
        let sums = if ask.thread.is_some() { SUMS_OF_THREAD } else { SUMS };
        let query = sqlx::query(sums).bind(ask.group.as_str()).bind(ask.tenant.0).bind(ask.from).bind(ask.to);
        let query = query.bind(key).bind(sub).bind(ask.page.rows()).bind(ask.thread.map(|pk| pk.0));
        page_of_sums(&query.fetch_all(&self.readers).await.map_err(unreadable)?, &ask.page)
    }

    async fn latest_calls(&self, tenant: TenantPk, from: Millis, limit: u32) -> Result<Vec<ModelUse>> {
        let query = sqlx::query(LATEST).bind(tenant.0).bind(from).bind(limit);
        read_calls(&query.fetch_all(&self.readers).await.map_err(unreadable)?)
    }

    async fn add_usage(
        &self,
        tenant: TenantPk,
        now: Millis,
        took: Vec<ModelUse>,
        spend: Vec<SpendChange>,
    ) -> Result<()> {
        let add = move |tx: &Transaction<'_>| {
            for took in &took {
                tx.prepare_cached(ADD)?.execute(params![tenant.0, now, json!(took).to_string()])?;
            }
            spend::change(tx, &spend, now)
        };
        self.writer.write(add).await
    }

    async fn forget_usage(&self, tenant: TenantPk, before: Millis, limit: u32) -> Result<u64> {
        let forget = move |tx: &Transaction<'_>| {
            let kept = tx.prepare_cached(FORGET)?.execute(params![tenant.0, before, limit])?;
            let left = i64::from(limit) - kept as i64;
            Ok(kept + tx.prepare_cached(FORGET_IN_USE)?.execute(params![tenant.0, before, left])?)
        };
        Ok(self.writer.chore(forget).await? as u64)
    }
}
