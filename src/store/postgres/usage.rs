//! Sums of the usage of model calls.

use async_trait::async_trait;
use serde_json::json;
use sqlx::{Connection as _, PgConnection};

use super::fault::error;
use super::{Postgres, spend};
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::domain::usage::{ModelUse, UsageSum};
use crate::engine::step::RowKind;
use crate::store::forgetting::{Examined, MAX_EXAMINED};
use crate::store::usage::{page_of_sums, read_calls};
use crate::store::{CallPosition, Error, Forgotten, Page, Result, SpendChange, UsageAsk, UsageReads, UsageStore};

/// The calls of the tenant. `$body` reads a body: one that cannot be read is an error, or left out.
macro_rules! calls {
    ($body:literal) => {
        concat!(
            "SELECT tenant, ord, ",
            $body,
            " AS body FROM thread_rows WHERE kind = 11 AND tenant = $2 AND ord >= $3 AND ord < $4
             UNION ALL SELECT tenant, ord, ",
            $body,
            " FROM usage_kept WHERE tenant = $2 AND ord >= $3 AND ord < $4"
        )
    };
}

/// The kind is a parameter, so that the planner reads the thread's rows, and not all calls of the tenant.
macro_rules! calls_of_thread {
    ($body:literal) => {
        concat!(
            "SELECT tenant, ord, ",
            $body,
            " AS body FROM thread_rows WHERE pk = $8 AND kind = $9 AND tenant = $2 AND ord >= $3 AND ord < $4"
        )
    };
}

macro_rules! sums {
    ($($calls:tt)*) => {
        concat!(
            r#"
SELECT * FROM (
    SELECT u.key COLLATE "C" AS key, u.sub COLLATE "C" AS sub, count(*) AS calls,
        sum(coalesce(u.body ->> 'inputTokens', '0')::bigint)::bigint AS input,
        sum(coalesce(u.body ->> 'outputTokens', '0')::bigint)::bigint AS output,
        sum(coalesce(u.body ->> 'thinkingTokens', '0')::bigint)::bigint AS thinking,
        sum(coalesce(u.body ->> 'cachedInputTokens', '0')::bigint)::bigint AS cached,
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
        FROM ("#,
            $($calls)*,
            r#") r
        JOIN tenants t ON t.pk = r.tenant WHERE r.body ?& '{run,provider,model}'
    ) u
    GROUP BY 1, 2
) s WHERE (s.key, s.sub) > ($5 COLLATE "C", $6 COLLATE "C") ORDER BY 1, 2 LIMIT $7"#
        )
    };
}

/// Of the tenant, and of one thread.
const SUMS: [&str; 2] = [sums!(calls!("body::jsonb")), sums!(calls_of_thread!("body::jsonb"))];

/// A body that has the shape of a call, or NULL.
macro_rules! legible {
    ($calls:ident) => {
        $calls!(
            "(SELECT c FROM pes_json(body) c WHERE jsonb_typeof(c -> 'run') = 'string'
                 AND jsonb_typeof(c -> 'provider') = 'string' AND jsonb_typeof(c -> 'model') = 'string'
                 AND coalesce(jsonb_typeof(c -> 'item'), 'null') IN ('string', 'null')
                 AND coalesce(c ->> 'inputTokens', '0') ~ '^[0-9]{1,15}$'
                 AND coalesce(c ->> 'outputTokens', '0') ~ '^[0-9]{1,15}$'
                 AND coalesce(c ->> 'thinkingTokens', '0') ~ '^[0-9]{1,15}$'
                 AND coalesce(c ->> 'cachedInputTokens', '0') ~ '^[0-9]{1,15}$'
                 AND coalesce(c ->> 'costNanos', '0') ~ '^-?[0-9]{1,18}$')"
        )
    };
}

/// Used if a body cannot be read: it is left out. It costs a subtransaction for each body.
const SUMS_OF_LEGIBLE: [&str; 2] = [sums!(legible!(calls)), sums!(legible!(calls_of_thread))];

const LATEST: &str = "
SELECT body FROM thread_rows WHERE kind = 11 AND tenant = $1 AND ord >= $2 ORDER BY ord DESC LIMIT $3";

pub(super) const ADD: &str = "INSERT INTO usage_kept (tenant, ord, body) VALUES ($1, $2, $3)";

/// The terms of the thread of the usage `u`, which are read once: `pes_json` costs a subtransaction.
macro_rules! terms {
    () => {
        "LEFT JOIN LATERAL (
             SELECT true AS are_set, pes_json(body) AS body FROM thread_rows WHERE pk = u.pk AND kind = 14 LIMIT 1) t ON true"
    };
}

/// Whether usage of an existing thread may be deleted: unless the thread is on hold, or has terms of its own that keep it for
/// ever, or that cannot be read.
macro_rules! may_go {
    () => {
        "(t.are_set IS NULL OR (t.body IS NOT NULL AND t.body -> 'hold' IS NULL
             AND t.body #>> '{terms,threadDays}' IS DISTINCT FROM 'forever'))"
    };
}

const EXAMINE: &str = concat!(
    "SELECT u.ord, u.pk, u.id, ",
    may_go!(),
    " AS may_go FROM (
         SELECT ord, pk, id FROM thread_rows
         WHERE kind = 11 AND tenant = $1 AND ord < $2 AND ord >= $3 AND (ord, pk, id) > ($3, $4, $5)
         ORDER BY ord, pk, id LIMIT $6) u ",
    terms!(),
    " ORDER BY u.ord, u.pk, u.id"
);

/// Deletes these calls of existing threads, unless a thread was put on hold since they were examined. The kind is a
/// parameter, so that the planner uses the primary key.
const FORGET_EXAMINED: &str = concat!(
    "DELETE FROM thread_rows WHERE ctid = ANY (ARRAY(
         SELECT r.ctid FROM unnest($1::bigint[], $2::text[]) u (pk, id) ",
    terms!(),
    " CROSS JOIN LATERAL (
             SELECT d.ctid FROM thread_rows d WHERE d.pk = u.pk AND d.kind = $3 AND d.id = u.id
             LIMIT 1 FOR UPDATE SKIP LOCKED) r
         WHERE ",
    may_go!(),
    "))"
);

const FORGET: &str = "
DELETE FROM usage_kept WHERE ctid IN (
    SELECT ctid FROM usage_kept WHERE tenant = $1 AND ord < $2 ORDER BY ord LIMIT $3 FOR UPDATE SKIP LOCKED)";

#[async_trait]
impl UsageReads for Postgres {
    async fn usage(&self, ask: &UsageAsk) -> Result<Page<UsageSum>> {
        match self.sums(SUMS, ask).await {
            Err(Error::Refused(error)) => {
                tracing::error!(%error, "what a model call took cannot be read and is left out");
                self.sums(SUMS_OF_LEGIBLE, ask).await
            }
            sums => sums,
        }
    }

    async fn latest_calls(&self, tenant: TenantPk, from: Millis, limit: u32) -> Result<Vec<ModelUse>> {
        let query = sqlx::query(LATEST).bind(tenant.0).bind(from).bind(i64::from(limit));
        read_calls(&self.pool.fetch_all(query).await?)
    }
}

#[async_trait]
impl UsageStore for Postgres {
    async fn add_usage(
        &self,
        tenant: TenantPk,
        now: Millis,
        calls: Vec<ModelUse>,
        spend: Vec<SpendChange>,
    ) -> Result<()> {
        self.pool.with_connection(async |connection| add(connection, (tenant, now), &calls, &spend).await).await
    }

    async fn forget_usage(
        &self,
        tenant: TenantPk,
        before: Millis,
        behind: &CallPosition,
        limit: u32,
    ) -> Result<Forgotten<CallPosition>> {
        let forget = sqlx::query(FORGET).bind(tenant.0).bind(before).bind(i64::from(limit));
        let kept = self.pool.execute(forget).await?;
        let left = u64::from(limit).saturating_sub(kept);
        if left == 0 {
            return Ok(Forgotten { deleted: kept, next: Some(behind.clone()) });
        }
        let examine = sqlx::query(EXAMINE).bind(tenant.0).bind(before).bind(behind.at).bind(behind.thread.0);
        let examine = examine.bind(&behind.id).bind(i64::from(MAX_EXAMINED));
        let rows = self.pool.fetch_all(examine).await?;
        let Examined { deletable, next } = Examined::read(&rows, left, CallPosition::read)?;
        let (pks, ids): (Vec<i64>, Vec<String>) = deletable.into_iter().map(|call| (call.thread.0, call.id)).unzip();
        if pks.is_empty() {
            return Ok(Forgotten { deleted: kept, next });
        }
        let forget = sqlx::query(FORGET_EXAMINED).bind(pks).bind(ids).bind(RowKind::Usage.code());
        Ok(Forgotten { deleted: kept + self.pool.execute(forget).await?, next })
    }
}

async fn add(
    connection: &mut PgConnection,
    (tenant, now): (TenantPk, Millis),
    calls: &[ModelUse],
    spend: &[SpendChange],
) -> Result<()> {
    let mut transaction = connection.begin().await.map_err(error)?;
    for call in calls {
        let add = sqlx::query(ADD).bind(tenant.0).bind(now).bind(json!(call).to_string());
        add.execute(&mut *transaction).await.map_err(error)?;
    }
    spend::change(&mut transaction, spend, now).await?;
    transaction.commit().await.map_err(error)
}

impl Postgres {
    async fn sums(&self, [sums, of_thread]: [&'static str; 2], ask: &UsageAsk) -> Result<Page<UsageSum>> {
        let (key, sub) = ask.after()?;
        let query = sqlx::query(if ask.thread.is_some() { of_thread } else { sums });
        let query = query.bind(ask.group.as_str()).bind(ask.tenant.0).bind(ask.from).bind(ask.to);
        let query = query.bind(key).bind(sub).bind(ask.page.rows()).bind(ask.thread.map(|pk| pk.0));
        let query = query.bind(RowKind::Usage.code());
        page_of_sums(&self.pool.fetch_all(query).await?, &ask.page)
    }
}
