//! Threads: one, whole, in lists, and gone.

use sqlx::postgres::PgRow;
use sqlx::{Connection, PgConnection, Row as _};

use super::fault::error;
use super::nul::{escaped, unescaped};
use super::pool::Pool;
use super::{deliveries, lease, ledger};
use crate::domain::ids::{TenantPk, ThreadId, ThreadPk};
use crate::domain::thread::ThreadProfile;
use crate::engine::step::Row;
use crate::store::cursor::{Cursor, page};
use crate::store::delivery::Erasure;
use crate::store::{Fence, LOOKED_AT, Mark, Page, PageAsk, Result, ThreadFilter, ThreadRow, text};

macro_rules! select {
    ($what:literal, $rest:literal) => {
        concat!(
            "SELECT t.pk, t.tenant, t.thread_id, t.epoch, t.lease, t.version, t.replica, t.core, t.head, t.status, \
             t.sheet, t.wake_at, t.floor, t.last_seq, t.min_seq, t.created_at, t.updated_at, t.created_by, \
             EXISTS (SELECT FROM replicas o WHERE o.id = t.replica) AS is_owned, c.times, c.alone, c.among",
            $what,
            " FROM threads t CROSS JOIN LATERAL (SELECT count(*) AS times, \
             count(*) FILTER (WHERE in_hand = 1) AS alone, coalesce(min(in_hand), 0) AS among \
             FROM crashes WHERE crashes.pk = t.pk) c ",
            $rest
        )
    };
}

const NAMED: &str = select!("", "WHERE t.tenant = $1 AND t.thread_id = $2");

const BY_PK: &str = select!("", "WHERE t.pk = $1");

/// One statement is one snapshot. Rows below the floor are not even looked at.
const LOAD: &str = select!(
    ", r.kinds, r.ids, r.ords, r.keeps, r.bodies",
    "CROSS JOIN LATERAL (
        SELECT array_agg(kind) AS kinds, array_agg(id) AS ids, array_agg(ord) AS ords, array_agg(keep) AS keeps,
            array_agg(body) AS bodies
        FROM (
            SELECT * FROM (
                SELECT kind, id, ord, keep, body FROM thread_rows WHERE pk = t.pk AND keep = 1
                UNION ALL
                SELECT kind, id, ord, keep, body FROM thread_rows WHERE pk = t.pk AND keep = 2 AND ord >= t.floor
            ) kept ORDER BY kind, ord, id
        ) sorted
    ) r
    WHERE t.pk = $1"
);

/// The last thread that a filter is tried on for the page that begins after this one.
const LAST: &str = "
SELECT updated_at, pk FROM threads WHERE tenant = $1 AND (updated_at, pk) < ($2, $3)
ORDER BY updated_at DESC, pk DESC LIMIT 1 OFFSET $4";

const LIST: &str = select!(
    "",
    "WHERE t.tenant = $1 AND (t.updated_at, t.pk) < ($2, $3) AND (t.updated_at, t.pk) >= ($7, $8)
        AND ($4::text IS NULL OR t.status = $4)
        AND ($5::text IS NULL OR strpos(lower(t.thread_id), $5) > 0 OR strpos(t.title, $5) > 0)
    ORDER BY t.updated_at DESC, t.pk DESC LIMIT $6"
);

/// Whatever was being committed to it is seen by now, and nothing more can be.
const DELETE_THE_REST: &str = r#"
WITH u AS (INSERT INTO usage_kept (tenant, ord, body)
        SELECT tenant, ord, ((body::jsonb - 'item') || '{"run": "deleted"}')::text
        FROM thread_rows WHERE pk = $1 AND kind = 11),
    r AS (DELETE FROM thread_rows WHERE pk = $1), o AS (DELETE FROM observations WHERE pk = $1),
    i AS (DELETE FROM idempotency WHERE pk = $1), c AS (DELETE FROM crashes WHERE pk = $1)
DELETE FROM deliveries WHERE pk = $1"#;

pub(super) async fn named(pool: &Pool, tenant: TenantPk, id: &ThreadId) -> Result<Option<ThreadRow>> {
    let query = sqlx::query(NAMED).bind(tenant.0).bind(escaped(id.as_str()));
    pool.ask(async |line| query.fetch_optional(line).await).await?.as_ref().map(thread).transpose()
}

pub(super) async fn by_pk(pool: &Pool, pk: ThreadPk) -> Result<Option<ThreadRow>> {
    let found = pool.ask(async |line| sqlx::query(BY_PK).bind(pk.0).fetch_optional(line).await).await?;
    found.as_ref().map(thread).transpose()
}

pub(super) async fn marks(pool: &Pool, pks: &[ThreadPk]) -> Result<Vec<Mark>> {
    let pks: Vec<i64> = pks.iter().map(|pk| pk.0).collect();
    let query = sqlx::query_as("SELECT pk, version, last_seq FROM threads WHERE pk = ANY($1)").bind(pks);
    let found: Vec<(i64, i64, i64)> = pool.ask(async |line| query.fetch_all(line).await).await?;
    Ok(found.into_iter().map(|(pk, version, last_seq)| Mark { pk: ThreadPk(pk), version, last_seq }).collect())
}

pub(super) async fn load(pool: &Pool, pk: ThreadPk) -> Result<Option<(ThreadRow, Vec<Row>)>> {
    let found = pool.ask(async |line| sqlx::query(LOAD).bind(pk.0).fetch_optional(line).await).await?;
    found.map(|found| Ok((thread(&found)?, loaded(&found)?))).transpose()
}

/// The rows of a thread, column by column; absent when there are none.
fn loaded(found: &PgRow) -> Result<Vec<Row>> {
    let Some(kinds) = found.try_get::<Option<Vec<i16>>, _>("kinds").map_err(error)? else { return Ok(Vec::new()) };
    let ids: Vec<String> = found.try_get("ids").map_err(error)?;
    let ords: Vec<i64> = found.try_get("ords").map_err(error)?;
    let keeps: Vec<i16> = found.try_get("keeps").map_err(error)?;
    let bodies: Vec<String> = found.try_get("bodies").map_err(error)?;
    let columns = kinds.into_iter().zip(ids).zip(ords).zip(keeps).zip(bodies);
    columns.map(|((((kind, id), ord), keep), body)| text::row(kind, unescaped(id), ord, keep, body)).collect()
}

pub(super) async fn list(
    pool: &Pool,
    tenant: TenantPk,
    filter: &ThreadFilter,
    ask: &PageAsk,
) -> Result<Page<ThreadRow>> {
    let before = Cursor::of(ask)?.unwrap_or_else(|| Cursor::new(i64::MAX, i64::MAX.to_string()));
    let before_pk = before.id.parse::<i64>().unwrap_or(0);
    let last: Option<(i64, i64)> = match filter.is_narrow() {
        true => {
            let query = sqlx::query_as(LAST).bind(tenant.0).bind(before.at).bind(before_pk);
            let query = query.bind(i64::from(LOOKED_AT) - 1);
            pool.ask(async |line| query.fetch_optional(line).await).await?
        }
        false => None,
    };
    let (last_at, last_pk) = last.unwrap_or((i64::MIN, i64::MIN));
    let query = sqlx::query(LIST)
        .bind(tenant.0)
        .bind(before.at)
        .bind(before_pk)
        .bind(filter.status.map(|status| status.as_str()))
        .bind(filter.q.as_deref().map(text::folded))
        .bind(i64::from(ask.limit) + 1)
        .bind(last_at)
        .bind(last_pk);
    let found = pool.ask(async |line| query.fetch_all(line).await).await?;
    let found = found.iter().map(|row| read(row, text::shown_profile)).collect::<Result<_>>()?;
    let page = page(found, ask.limit, |thread: &ThreadRow| Cursor::new(thread.updated_at, thread.pk.0.to_string()));
    Ok(page.or_behind(last.map(|(at, pk)| Cursor::new(at, pk.to_string()))))
}

/// The thread goes first, and alone: that waits for a commit in flight and forbids every other.
pub(super) async fn delete(pool: &Pool, erasure: &Erasure) -> Result<bool> {
    pool.talk(async |line| erase(line, erasure).await).await
}

async fn erase(line: &mut PgConnection, erasure: &Erasure) -> Result<bool> {
    let pk = erasure.thread.0;
    let mut transaction = line.begin().await.map_err(error)?;
    let gone = sqlx::query_scalar("DELETE FROM threads WHERE pk = $1 AND version = $2 RETURNING tenant");
    let gone = gone.bind(pk).bind(erasure.version).fetch_optional(&mut *transaction).await.map_err(error)?;
    let Some(tenant) = gone else { return Ok(false) };
    sqlx::query(DELETE_THE_REST).bind(pk).execute(&mut *transaction).await.map_err(error)?;
    deliveries::leave(&mut transaction, TenantPk(tenant), erasure).await?;
    ledger::note(&mut transaction, &erasure.audit).await?;
    transaction.commit().await.map_err(error)?;
    Ok(true)
}

fn thread(row: &PgRow) -> Result<ThreadRow> {
    read(row, text::sheet)
}

fn read(row: &PgRow, sheet: fn(&str) -> Result<ThreadProfile>) -> Result<ThreadRow> {
    let text: &str = row.try_get("sheet").map_err(error)?;
    let status: &str = row.try_get("status").map_err(error)?;
    Ok(ThreadRow {
        pk: ThreadPk(row.try_get("pk").map_err(error)?),
        tenant: TenantPk(row.try_get("tenant").map_err(error)?),
        thread_id: unescaped(row.try_get("thread_id").map_err(error)?).into(),
        fence: Fence {
            epoch: row.try_get("epoch").map_err(error)?,
            lease: row.try_get("lease").map_err(error)?,
            version: row.try_get("version").map_err(error)?,
        },
        replica: row.try_get("replica").map_err(error)?,
        core: row.try_get("core").map_err(error)?,
        head: row.try_get("head").map_err(error)?,
        status: text::status(status)?,
        sheet: sheet(text)?,
        wake_at: row.try_get("wake_at").map_err(error)?,
        floor: row.try_get("floor").map_err(error)?,
        last_seq: row.try_get("last_seq").map_err(error)?,
        min_seq: row.try_get("min_seq").map_err(error)?,
        is_owned: row.try_get("is_owned").map_err(error)?,
        crashes: lease::crashes(row)?,
        created_at: row.try_get("created_at").map_err(error)?,
        updated_at: row.try_get("updated_at").map_err(error)?,
        created_by: unescaped(row.try_get("created_by").map_err(error)?),
    })
}
