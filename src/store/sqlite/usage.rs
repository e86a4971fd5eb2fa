//! Sums of what model calls took.

use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqlitePool};

use super::fault::unreadable;
use crate::domain::model::Usage;
use crate::domain::usage::UsageSum;
use crate::store::cursor::page;
use crate::store::usage::sum_cursor;
use crate::store::{Page, Result, UsageAsk};

const SUMS: &str = "
SELECT CASE ?1 WHEN 'run' THEN r.body ->> 'run' WHEN 'item' THEN r.body ->> 'run' WHEN 'model' THEN r.body ->> 'provider'
        WHEN 'tenant' THEN t.name ELSE date(r.ord / 1000, 'unixepoch') END AS key,
    CASE ?1 WHEN 'item' THEN coalesce(r.body ->> 'item', '') WHEN 'model' THEN r.body ->> 'model' ELSE '' END AS sub,
    count(*), sum(r.body ->> 'inputTokens'), sum(r.body ->> 'outputTokens'), sum(r.body ->> 'thinkingTokens'),
    sum(r.body ->> 'cachedInputTokens'), coalesce(sum(r.body ->> 'costNanos'), 0),
    count(*) - count(r.body ->> 'costNanos')
FROM (
    SELECT tenant, ord, body FROM thread_rows WHERE kind = 11 AND tenant = ?2 AND ord >= ?3 AND ord < ?4
    UNION ALL SELECT tenant, ord, body FROM usage_kept WHERE tenant = ?2 AND ord >= ?3 AND ord < ?4
) r JOIN tenants t ON t.pk = r.tenant
GROUP BY 1, 2 HAVING (key, sub) > (?5, ?6) ORDER BY 1, 2 LIMIT ?7";

pub(super) async fn sums(db: &SqlitePool, ask: &UsageAsk) -> Result<Page<UsageSum>> {
    let (key, sub) = ask.after()?;
    let query = sqlx::query(SUMS).bind(ask.group.as_str()).bind(ask.tenant.0).bind(ask.from).bind(ask.to);
    let query = query.bind(key).bind(sub).bind(i64::from(ask.page.limit) + 1);
    let found = query.fetch_all(db).await.map_err(unreadable)?;
    let found = found.iter().map(|row| sum(row).map_err(unreadable)).collect::<Result<Vec<_>>>()?;
    Ok(page(found, ask.page.limit, sum_cursor))
}

fn sum(row: &SqliteRow) -> std::result::Result<UsageSum, sqlx::Error> {
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
