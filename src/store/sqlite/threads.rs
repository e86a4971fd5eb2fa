//! Threads: one, a page of them, none.

use serde_json::{Value, json};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteExecutor, SqlitePool};

use super::fault::unreadable;
use super::replicas::read_crashes;
use super::rows;
use super::writer::Writer;
use crate::domain::ids::{TenantPk, ThreadId, ThreadPk};
use crate::domain::thread::ThreadProfile;
use crate::engine::step::Row;
use crate::store::cursor::{Cursor, page};
use crate::store::delivery::Erasure;
use crate::store::{AuditRow, Fence, LOOKED_AT, Mark, Page, PageAsk, Result, ThreadFilter, ThreadRow, text};

macro_rules! select_thread {
    ($rest:literal) => {
        concat!(
            "SELECT pk, tenant, thread_id, core, version, epoch, lease, replica, status, wake_at, floor, last_seq, \
             min_seq, created_at, updated_at, created_by, sheet, head, \
             EXISTS (SELECT 1 FROM replicas o WHERE o.id = t.replica) AS is_owned, ",
            super::replicas::crashes!(),
            " FROM threads t ",
            $rest
        )
    };
}

pub(super) async fn named(db: &SqlitePool, tenant: TenantPk, id: &ThreadId) -> Result<Option<ThreadRow>> {
    let query = sqlx::query(select_thread!("WHERE tenant = ? AND thread_id = ?")).bind(tenant.0).bind(id.as_str());
    query.fetch_optional(db).await.map_err(unreadable)?.map(|row| thread(&row)).transpose()
}

pub(super) async fn by_pk(db: impl SqliteExecutor<'_>, pk: ThreadPk) -> Result<Option<ThreadRow>> {
    let query = sqlx::query(select_thread!("WHERE pk = ?")).bind(pk.0);
    query.fetch_optional(db).await.map_err(unreadable)?.map(|row| thread(&row)).transpose()
}

pub(super) async fn marks(db: &SqlitePool, pks: &[ThreadPk]) -> Result<Vec<Mark>> {
    let pks = serde_json::Value::from_iter(pks.iter().map(|pk| pk.0)).to_string();
    let query = "SELECT pk, version, last_seq FROM threads WHERE pk IN (SELECT value FROM json_each(?))";
    let found: Vec<(i64, i64, i64)> = sqlx::query_as(query).bind(pks).fetch_all(db).await.map_err(unreadable)?;
    Ok(found.into_iter().map(|(pk, version, last_seq)| Mark { pk: ThreadPk(pk), version, last_seq }).collect())
}

pub(super) async fn load(db: &SqlitePool, pk: ThreadPk) -> Result<Option<(ThreadRow, Vec<Row>)>> {
    let mut snapshot = db.begin().await.map_err(unreadable)?;
    let Some(thread) = by_pk(&mut *snapshot, pk).await? else { return Ok(None) };
    let rows = rows::kept(&mut *snapshot, pk, thread.floor).await?;
    Ok(Some((thread, rows)))
}

/// The last thread that a filter is tried on for the page that begins after this one.
const LAST: &str = "
SELECT updated_at, pk FROM threads WHERE tenant = ?1 AND (updated_at, pk) < (?2, CAST(?3 AS INTEGER))
ORDER BY updated_at DESC, pk DESC LIMIT 1 OFFSET ?4";

pub(super) async fn list(
    db: &SqlitePool,
    tenant: TenantPk,
    filter: &ThreadFilter,
    ask: &PageAsk,
) -> Result<Page<ThreadRow>> {
    let after = Cursor::of(ask)?.unwrap_or_else(|| Cursor::new(i64::MAX, i64::MAX.to_string()));
    let last: Option<(i64, i64)> = match filter.is_narrow() {
        true => {
            let query = sqlx::query_as(LAST).bind(tenant.0).bind(after.at).bind(&after.id).bind(LOOKED_AT - 1);
            query.fetch_optional(db).await.map_err(unreadable)?
        }
        false => None,
    };
    let (last_at, last_pk) = last.unwrap_or((i64::MIN, i64::MIN));
    let query = sqlx::query(select_thread!(
        "WHERE tenant = ?1 AND (updated_at, pk) < (?2, CAST(?3 AS INTEGER)) AND (updated_at, pk) >= (?7, ?8)
         AND (?4 IS NULL OR status = ?4)
         AND (?5 IS NULL OR instr(title, ?5) > 0 OR instr(lower(thread_id), ?5) > 0)
         ORDER BY updated_at DESC, pk DESC LIMIT ?6"
    ));
    let query = query.bind(tenant.0).bind(after.at).bind(after.id).bind(filter.status.map(|status| status.as_str()));
    let query = query.bind(filter.q.as_deref().map(text::folded)).bind(i64::from(ask.limit) + 1);
    let found = query.bind(last_at).bind(last_pk).fetch_all(db).await.map_err(unreadable)?;
    let found =
        found.iter().map(|row| read(row, text::shown_profile).map_err(unreadable)?).collect::<Result<Vec<_>>>()?;
    let page = page(found, ask.limit, |thread: &ThreadRow| Cursor::new(thread.updated_at, thread.pk.0.to_string()));
    Ok(page.or_behind(last.map(|(at, pk)| Cursor::new(at, pk.to_string()))))
}

macro_rules! of_the_erased {
    () => {
        " WHERE pk = (SELECT pk FROM threads WHERE pk = ?1 AND version = ?2)"
    };
}

/// The thread itself goes last: while it is there as it was read, the rest is erased.
const ERASE: &str = concat!(
    "BEGIN IMMEDIATE;
     INSERT INTO usage_kept (tenant, ord, body)
         SELECT tenant, ord, json_set(json_remove(body, '$.item'), '$.run', 'deleted') FROM thread_rows",
    of_the_erased!(),
    " AND kind = 11; DELETE FROM thread_rows",
    of_the_erased!(),
    "; DELETE FROM observations",
    of_the_erased!(),
    "; DELETE FROM crashes",
    of_the_erased!(),
    "; DELETE FROM idempotency",
    of_the_erased!(),
    "; DELETE FROM deliveries",
    of_the_erased!(),
    ";
     INSERT INTO deliveries (pk, tenant, id, target_kind, target, lane, event, status, due_at, attempts, created_at, body)
         SELECT pk, tenant, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, 'pending', ?3, 0, ?3,
             value ->> 5
         FROM json_each(?4), threads",
    of_the_erased!(),
    "; INSERT INTO audit (pk, tenant, thread_id, at, actor, action, detail)
         SELECT 0, tenant, ?8, ?3, ?5, ?6, ?7 FROM threads",
    of_the_erased!(),
    ";
     DELETE FROM threads WHERE pk = ?1 AND version = ?2 RETURNING pk;
     COMMIT"
);

pub(super) async fn delete(writer: &Writer, erasure: Erasure) -> Result<bool> {
    let left = erasure
        .deliveries
        .iter()
        .map(|new| json!([new.id, new.kind.as_str(), new.target, new.ordering_key, new.event, new.body]));
    let left = left.collect::<Value>().to_string();
    let script = sqlx::query(ERASE).bind(erasure.thread.0).bind(erasure.version).bind(erasure.now).bind(left);
    let AuditRow { thread_id, actor, action, detail, .. } = erasure.audit;
    let script = script.bind(actor).bind(action).bind(detail.to_string());
    let script = script.bind(thread_id.map(|id| id.as_str().to_owned()));
    Ok(!writer.write(script).await?.is_empty())
}

fn thread(row: &SqliteRow) -> Result<ThreadRow> {
    read(row, text::sheet).map_err(unreadable)?
}

fn read(
    row: &SqliteRow,
    sheet: fn(&str) -> Result<ThreadProfile>,
) -> std::result::Result<Result<ThreadRow>, sqlx::Error> {
    let status = text::status(row.try_get("status")?);
    let sheet = sheet(row.try_get("sheet")?);
    let lease = row.try_get::<Option<uuid::fmt::Simple>, _>("lease")?;
    let replica = row.try_get::<Option<uuid::fmt::Simple>, _>("replica")?;
    let thread = ThreadRow {
        pk: ThreadPk(row.try_get("pk")?),
        tenant: TenantPk(row.try_get("tenant")?),
        thread_id: row.try_get::<String, _>("thread_id")?.into(),
        fence: Fence { epoch: row.try_get("epoch")?, lease: lease.map(Into::into), version: row.try_get("version")? },
        replica: replica.map(Into::into),
        core: row.try_get("core")?,
        head: row.try_get("head")?,
        status: Default::default(),
        sheet: Default::default(),
        wake_at: row.try_get("wake_at")?,
        floor: row.try_get("floor")?,
        last_seq: row.try_get("last_seq")?,
        min_seq: row.try_get("min_seq")?,
        is_owned: row.try_get("is_owned")?,
        crashes: read_crashes(row)?,
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
        created_by: row.try_get("created_by")?,
    };
    Ok(status.and_then(|status| Ok(ThreadRow { status, sheet: sheet?, ..thread })))
}
