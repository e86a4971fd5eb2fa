//! Sums of the usage of model calls.

use async_trait::async_trait;

use super::Postgres;
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::domain::usage::{ModelUse, UsageSum};
use crate::store::usage::{page_of_sums, read_calls};
use crate::store::{Page, Result, UsageAsk, UsageStore};

const SUMS: &str = r#"
SELECT * FROM (
    SELECT u.key COLLATE "C" AS key, u.sub COLLATE "C" AS sub, count(*) AS calls,
        sum((u.body ->> 'inputTokens')::bigint)::bigint AS input,
        sum((u.body ->> 'outputTokens')::bigint)::bigint AS output,
        sum((u.body ->> 'thinkingTokens')::bigint)::bigint AS thinking,
        sum((u.body ->> 'cachedInputTokens')::bigint)::bigint AS cached,
        coalesce(sum((u.body ->> 'costNanos')::bigint), 0)::bigint AS cost,
        count(*) - count(u.body ->> 'costNanos') AS unpriced
    FROM (
        SELECT r.body,
            CASE $1 WHEN 'run' THEN r.body ->> 'run' WHEN 'run,model' THEN r.body ->> 'run' WHEN 'item' THEN r.body ->> 'run'
                WHEN 'model' THEN r.body ->> 'provider' WHEN 'tenant' THEN t.name
                ELSE to_char(to_timestamp(r.ord / 1000) AT TIME ZONE 'UTC', 'YYYY-MM-DD') END AS key,
            CASE $1 WHEN 'item' THEN coalesce(r.body ->> 'item', '') WHEN 'model' THEN r.body ->> 'model'
                WHEN 'run,model' THEN (r.body ->> 'provider') || ':' || (r.body ->> 'model') ELSE '' END
                AS sub
        FROM (SELECT tenant, ord, body::jsonb AS body FROM thread_rows
            WHERE kind = 11 AND tenant = $2 AND ord >= $3 AND ord < $4 AND ($8::bigint IS NULL OR pk = $8)
            UNION ALL SELECT tenant, ord, body::jsonb FROM usage_kept
            WHERE tenant = $2 AND ord >= $3 AND ord < $4 AND $8::bigint IS NULL) r
        JOIN tenants t ON t.pk = r.tenant
    ) u
    GROUP BY 1, 2
) s WHERE (s.key, s.sub) > ($5 COLLATE "C", $6 COLLATE "C") ORDER BY 1, 2 LIMIT $7"#;

const LATEST: &str = "
SELECT body FROM thread_rows WHERE kind = 11 AND tenant = $1 AND ord >= $2 ORDER BY ord DESC LIMIT $3";

/// Of threads that are there; not of those on hold, nor of those that are to be kept for ever themselves.
const FORGET_IN_USE: &str = "
DELETE FROM thread_rows WHERE ctid IN (
    SELECT u.ctid FROM thread_rows u WHERE u.kind = 11 AND u.tenant = $1 AND u.ord < $2 AND NOT EXISTS (
        SELECT 1 FROM thread_rows h WHERE h.pk = u.pk AND h.kind = 14
            AND (h.body::jsonb -> 'hold' IS NOT NULL OR h.body::jsonb #>> '{terms,threadDays}' = 'forever'))
    ORDER BY u.ord LIMIT $3 FOR UPDATE OF u SKIP LOCKED)";

const FORGET: &str = "
DELETE FROM usage_kept WHERE ctid IN (
    SELECT ctid FROM usage_kept WHERE tenant = $1 AND ord < $2 ORDER BY ord LIMIT $3 FOR UPDATE SKIP LOCKED)";

#[async_trait]
impl UsageStore for Postgres {
    async fn usage(&self, ask: &UsageAsk) -> Result<Page<UsageSum>> {
        let (key, sub) = ask.after()?;
        let query = sqlx::query(SUMS).bind(ask.group.as_str()).bind(ask.tenant.0).bind(ask.from).bind(ask.to);
        let query = query.bind(key).bind(sub).bind(ask.page.rows()).bind(ask.thread.map(|pk| pk.0));
        page_of_sums(&self.pool.with_query(async |connection| query.fetch_all(connection).await).await?, &ask.page)
    }

    async fn latest_calls(&self, tenant: TenantPk, from: Millis, limit: u32) -> Result<Vec<ModelUse>> {
        let query = sqlx::query(LATEST).bind(tenant.0).bind(from).bind(i64::from(limit));
        read_calls(&self.pool.with_query(async |connection| query.fetch_all(connection).await).await?)
    }

    async fn forget_usage(&self, tenant: TenantPk, before: Millis, limit: u32) -> Result<u64> {
        let mut forgotten = 0;
        for sql in [FORGET, FORGET_IN_USE] {
            let left = i64::from(limit) - forgotten as i64;
            let query = sqlx::query(sql).bind(tenant.0).bind(before).bind(left);
            forgotten +=
                self.pool.with_query(async |connection| query.execute(connection).await).await?.rows_affected();
        }
        Ok(forgotten)
    }
}
