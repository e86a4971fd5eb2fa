//! Sums of what model calls took.

use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::fault::error;
use super::pool::Pool;
use crate::domain::model::Usage;
use crate::domain::usage::UsageSum;
use crate::store::cursor::page;
use crate::store::usage::sum_cursor;
use crate::store::{Page, Result, UsageAsk};

const SUMS: &str = r#"
SELECT * FROM (
    SELECT u.key COLLATE "C" AS key, u.sub COLLATE "C" AS sub, count(*), sum((u.body ->> 'inputTokens')::bigint)::bigint,
        sum((u.body ->> 'outputTokens')::bigint)::bigint, sum((u.body ->> 'thinkingTokens')::bigint)::bigint,
        sum((u.body ->> 'cachedInputTokens')::bigint)::bigint,
        coalesce(sum((u.body ->> 'costNanos')::bigint), 0)::bigint, count(*) - count(u.body ->> 'costNanos')
    FROM (
        SELECT r.body,
            CASE $1 WHEN 'run' THEN r.body ->> 'run' WHEN 'item' THEN r.body ->> 'run'
                WHEN 'model' THEN r.body ->> 'provider' WHEN 'tenant' THEN t.name
                ELSE to_char(to_timestamp(r.ord / 1000) AT TIME ZONE 'UTC', 'YYYY-MM-DD') END AS key,
            CASE $1 WHEN 'item' THEN coalesce(r.body ->> 'item', '') WHEN 'model' THEN r.body ->> 'model' ELSE '' END
                AS sub
        FROM (SELECT tenant, ord, body::jsonb AS body FROM thread_rows
            WHERE kind = 11 AND tenant = $2 AND ord >= $3 AND ord < $4
            UNION ALL SELECT tenant, ord, body::jsonb FROM usage_kept
            WHERE tenant = $2 AND ord >= $3 AND ord < $4) r
        JOIN tenants t ON t.pk = r.tenant
    ) u
    GROUP BY 1, 2
) s WHERE (s.key, s.sub) > ($5 COLLATE "C", $6 COLLATE "C") ORDER BY 1, 2 LIMIT $7"#;

pub(super) async fn sums(pool: &Pool, ask: &UsageAsk) -> Result<Page<UsageSum>> {
    let (key, sub) = ask.after()?;
    let query = sqlx::query(SUMS).bind(ask.group.as_str()).bind(ask.tenant.0).bind(ask.from).bind(ask.to);
    let query = query.bind(key).bind(sub).bind(i64::from(ask.page.limit) + 1);
    let found = pool.ask(async |line| query.fetch_all(line).await).await?;
    let found = found.iter().map(|row| sum(row).map_err(error)).collect::<Result<Vec<_>>>()?;
    Ok(page(found, ask.page.limit, sum_cursor))
}

fn sum(row: &PgRow) -> std::result::Result<UsageSum, sqlx::Error> {
    let count = |at: usize| row.try_get::<i64, _>(at).map(i64::unsigned_abs);
    Ok(UsageSum {
        key: row.try_get(0)?,
        sub: row.try_get(1)?,
        calls: count(2)?,
        usage: Usage {
            input_tokens: count(3)?,
            output_tokens: count(4)?,
            thinking_tokens: count(5)?,
            cached_input_tokens: count(6)?,
        },
        cost_nanos: row.try_get(7)?,
        unpriced: count(8)?,
    })
}
