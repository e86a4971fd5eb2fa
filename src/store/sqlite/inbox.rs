//! Rows found across the threads of a tenant. Kinds are compared as in `rows`.

use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqlitePool};

use super::fault::unreadable;
use super::rows;
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::engine::step::RowKind;
use crate::store::cursor::{Cursor, page};
use crate::store::{Figures, Found, Page, PageAsk, Result, StandingAsk};

pub(super) async fn find(db: &SqlitePool, tenant: TenantPk, kind: RowKind, id: &str) -> Result<Option<Found>> {
    let query = sqlx::query(
        "SELECT t.pk, t.thread_id, r.kind, r.id, r.ord, r.keep, r.body
         FROM thread_rows r JOIN threads t ON t.pk = r.pk
         WHERE r.tenant = ? AND r.id = ? AND r.kind IN (1, 6, 7) AND r.kind = +?",
    );
    let query = query.bind(tenant.0).bind(id).bind(kind.code());
    query.fetch_optional(db).await.map_err(unreadable)?.map(|row| found(&row)).transpose()
}

pub(super) async fn open(db: &SqlitePool, tenant: TenantPk, ask: &PageAsk) -> Result<Page<Found>> {
    let after = Cursor::of(ask)?.map(|cursor| cursor.id).unwrap_or_default();
    let query = sqlx::query(
        "SELECT t.pk, t.thread_id, r.kind, r.id, r.ord, r.keep, r.body
         FROM thread_rows r JOIN threads t ON t.pk = r.pk
         WHERE r.tenant = ? AND r.id > ? AND r.kind = 6 AND r.keep = 1 ORDER BY r.id LIMIT ?",
    );
    let query = query.bind(tenant.0).bind(after).bind(i64::from(ask.limit) + 1);
    let open = query.fetch_all(db).await.map_err(unreadable)?;
    let open = open.iter().map(found).collect::<Result<Vec<_>>>()?;
    Ok(page(open, ask.limit, |found| Cursor::new(0, found.row.id.clone())))
}

/// What every id of a task begins with.
const TASKS: &str = "task_";

/// By `rows_found`, whose ids are in the order of their kinds, then of their time.
pub(super) async fn tasks(db: &SqlitePool, tenant: TenantPk, ask: &PageAsk) -> Result<Page<Found>> {
    let before = Cursor::of(ask)?.map_or_else(|| format!("{TASKS}~"), |cursor| cursor.id);
    let query = sqlx::query(
        "SELECT t.pk, t.thread_id, r.kind, r.id, r.ord, r.keep, r.body
         FROM thread_rows r JOIN threads t ON t.pk = r.pk
         WHERE r.tenant = ? AND r.id > ? AND r.id < ? AND r.kind IN (1, 6, 7) AND r.kind = +7 ORDER BY r.id DESC LIMIT ?",
    );
    let query = query.bind(tenant.0).bind(TASKS).bind(before).bind(i64::from(ask.limit) + 1);
    let tasks = query.fetch_all(db).await.map_err(unreadable)?;
    let tasks = tasks.iter().map(found).collect::<Result<Vec<_>>>()?;
    Ok(page(tasks, ask.limit, |found| Cursor::new(0, found.row.id.clone())))
}

pub(super) async fn figures(db: &SqlitePool) -> Result<Figures> {
    const RUNS: &str =
        "SELECT body ->> 'status', count(*) FROM thread_rows WHERE kind = 1 AND keep = 1 AND json_valid(body)
        GROUP BY 1";
    const ASKED: &str = "SELECT body ->> 'kind', count(*), min(body ->> 'createdAt') FROM thread_rows
        WHERE kind = 6 AND keep = 1 AND json_valid(body) GROUP BY 1";
    const DUE: &str = "SELECT count(*), min(due_at) FROM deliveries WHERE due_at IS NOT NULL";
    let mut figures = Figures::default();
    let runs: Vec<(String, i64)> = sqlx::query_as(RUNS).fetch_all(db).await.map_err(unreadable)?;
    runs.iter().try_for_each(|(status, count)| figures.run(status, *count))?;
    let asked: Vec<(String, i64, Millis)> = sqlx::query_as(ASKED).fetch_all(db).await.map_err(unreadable)?;
    asked.iter().try_for_each(|(kind, count, since)| figures.question(kind, *count, *since))?;
    let (due, oldest): (i64, Option<Millis>) = sqlx::query_as(DUE).fetch_one(db).await.map_err(unreadable)?;
    (figures.deliveries, figures.oldest_due) = (due.unsigned_abs(), oldest);
    Ok(figures)
}

macro_rules! standing {
    ($what:literal, $joined:literal, $of:literal, $more:literal) => {
        concat!(
            "SELECT ",
            $what,
            " FROM thread_rows s ",
            $joined,
            " WHERE s.tenant = ?1 AND s.kind = 12",
            $of,
            " AND s.ord >= ?3 AND (?4 = '[]' OR s.body IN (SELECT value FROM json_each(?4)))",
            $more
        )
    };
}

macro_rules! standings {
    ($of:literal) => {
        [
            standing!("count(*)", "", $of, ""),
            standing!(
                "t.pk, t.thread_id, r.kind, r.id, r.ord, r.keep, r.body, s.ord AS since",
                "CROSS JOIN thread_rows r ON r.pk = s.pk AND r.kind = 1 AND r.id = s.id
                 JOIN threads t ON t.pk = s.pk",
                $of,
                " AND (s.ord, s.id) < (?5, ?6) ORDER BY s.ord DESC, s.id DESC LIMIT ?7"
            ),
        ]
    };
}

pub(super) async fn by_standing(db: &SqlitePool, ask: &StandingAsk) -> Result<(Page<Found>, u64)> {
    let [count, list] = match ask.thread {
        Some(_) => standings!(" AND s.pk = ?2"),
        None => standings!(""),
    };
    let bodies = serde_json::to_string(&ask.bodies()).expect("texts are JSON");
    let bound = |sql: &'static str| {
        let query = sqlx::query(sql).bind(ask.tenant.0).bind(ask.thread.map(|pk| pk.0));
        query.bind(ask.since.unwrap_or(i64::MIN)).bind(bodies.clone())
    };
    let total: i64 = bound(count).fetch_one(db).await.and_then(|row| row.try_get(0)).map_err(unreadable)?;
    let before = ask.before()?;
    let query = bound(list).bind(before.at).bind(before.id).bind(i64::from(ask.page.limit) + 1);
    let rows = query.fetch_all(db).await.map_err(unreadable)?;
    let since = |row: &SqliteRow| row.try_get::<i64, _>("since").map_err(unreadable);
    let runs = rows.iter().map(|row| Ok((since(row)?, found(row)?))).collect::<Result<Vec<_>>>()?;
    let runs = page(runs, ask.page.limit, |(since, run)| Cursor::new(*since, run.row.id.clone()));
    Ok((runs.map(|(_, run)| run), total.unsigned_abs()))
}

fn found(row: &SqliteRow) -> Result<Found> {
    let pk = ThreadPk(row.try_get("pk").map_err(unreadable)?);
    let thread_id = row.try_get::<String, _>("thread_id").map_err(unreadable)?.into();
    Ok(Found { pk, thread_id, row: rows::row(row)? })
}
