//! What belongs to a thread: rows, messages, payloads, observations.

use std::sync::Arc;

use serde_json::Value;
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::fault::error;
use super::nul::{escaped, unescaped};
use super::pool::Pool;
use crate::domain::Millis;
use crate::domain::ids::{MessageId, PayloadId, TenantPk, ThreadPk};
use crate::domain::message::ConversationMessage;
use crate::domain::observation::Observation;
use crate::engine::step::{Row, RowKind};
use crate::store::cursor::{Cursor, page};
use crate::store::log::{self, Entry};
use crate::store::{Figures, Found, ObservationAsk, Page, PageAsk, Result, StandingAsk, text};

const ROW: &str = "SELECT kind, id, ord, keep, body FROM thread_rows WHERE pk = $1 AND kind = $2 AND id = $3";

/// The planner takes a partial index only for what it can prove from the text of a query: hence `$more`.
macro_rules! page_of_rows {
    ($more:literal, $beyond:literal, $order:literal) => {
        concat!(
            "SELECT kind, id, ord, keep, body FROM thread_rows WHERE pk = $1 AND kind = $2",
            $more,
            " AND (ord, id) ",
            $beyond,
            " ($3, $4) ORDER BY ord ",
            $order,
            ", id ",
            $order,
            " LIMIT $5"
        )
    };
}

const FOUND: &str = "
SELECT r.pk, t.thread_id, r.kind, r.id, r.ord, r.keep, r.body FROM thread_rows r JOIN threads t ON t.pk = r.pk
WHERE r.tenant = $1 AND r.kind = $2 AND r.kind IN (1, 6, 7) AND r.id = $3";

const INBOX: &str = "
SELECT r.pk, t.thread_id, r.kind, r.id, r.ord, r.keep, r.body FROM thread_rows r JOIN threads t ON t.pk = r.pk
WHERE r.tenant = $1 AND r.kind = 6 AND r.keep = 1 AND r.id > $2 ORDER BY r.id LIMIT $3";

/// By `rows_found`, whose ids are in the order of their kinds, then of their time.
const TASKS: &str = "
SELECT r.pk, t.thread_id, r.kind, r.id, r.ord, r.keep, r.body FROM thread_rows r JOIN threads t ON t.pk = r.pk
WHERE r.tenant = $1 AND r.kind = 7 AND r.kind IN (1, 6, 7) AND r.id > 'task_' AND r.id < $2 ORDER BY r.id DESC LIMIT $3";

const RUNNING: &str = "
SELECT pes_json(body) ->> 'status', count(*) FROM thread_rows WHERE kind = 1 AND keep = 1 AND pes_json(body) IS NOT NULL
GROUP BY 1";

const ASKED: &str = "
SELECT pes_json(body) ->> 'kind', count(*), min((pes_json(body) ->> 'createdAt')::bigint) FROM thread_rows
WHERE kind = 6 AND keep = 1 AND pes_json(body) IS NOT NULL GROUP BY 1";

const DUE: &str = "SELECT count(*), min(due_at) FROM deliveries WHERE due_at IS NOT NULL";

const HISTORY: &str = "
SELECT body FROM (
    SELECT ord, id, body FROM thread_rows WHERE pk = $1 AND kind = 2
        AND ord < coalesce((SELECT ord FROM thread_rows WHERE pk = $1 AND kind = 2 AND id = $2), 9223372036854775807)
    ORDER BY ord DESC, id DESC LIMIT $3
) newest ORDER BY ord, id";

const PAYLOADS: &str = "
SELECT r.id, r.body FROM unnest($2::text[]) WITH ORDINALITY w (id, place)
JOIN thread_rows r ON r.pk = $1 AND r.kind = 8 AND r.id = w.id ORDER BY w.place";

/// Those after a number; of those asked for by type, what may hold some.
const ENTRIES: &str = "
SELECT t.thread_id, o.seq, o.body FROM observations o JOIN threads t ON t.pk = o.pk
WHERE o.pk = $1 AND o.seq > $2
    AND ($3::text[] = '{}' OR EXISTS (SELECT FROM unnest($3) w (type) WHERE strpos(o.types, w.type) > 0))
ORDER BY o.seq LIMIT $4";

pub(super) async fn row(pool: &Pool, pk: ThreadPk, kind: RowKind, id: &str) -> Result<Option<Row>> {
    let query = sqlx::query(ROW).bind(pk.0).bind(kind.code()).bind(escaped(id));
    pool.ask(async |line| query.fetch_optional(line).await).await?.as_ref().map(stored).transpose()
}

pub(super) async fn find(pool: &Pool, tenant: TenantPk, kind: RowKind, id: &str) -> Result<Option<Found>> {
    let query = sqlx::query(FOUND).bind(tenant.0).bind(kind.code()).bind(escaped(id));
    pool.ask(async |line| query.fetch_optional(line).await).await?.as_ref().map(found).transpose()
}

pub(super) async fn page_of_rows(
    pool: &Pool,
    pk: ThreadPk,
    kind: RowKind,
    descending: bool,
    ask: &PageAsk,
) -> Result<Page<Row>> {
    let sql = match (matches!(kind, RowKind::Run | RowKind::Message), descending) {
        (true, false) => page_of_rows!(" AND kind <= 2", ">", "ASC"),
        (true, true) => page_of_rows!(" AND kind <= 2", "<", "DESC"),
        (false, false) => page_of_rows!("", ">", "ASC"),
        (false, true) => page_of_rows!("", "<", "DESC"),
    };
    let beginning = if descending { i64::MAX } else { i64::MIN };
    let from = Cursor::of(ask)?.unwrap_or_else(|| Cursor::new(beginning, ""));
    let limit = i64::from(ask.limit) + 1;
    let query = sqlx::query(sql).bind(pk.0).bind(kind.code()).bind(from.at).bind(escaped(&from.id)).bind(limit);
    let rows = pool.ask(async |line| query.fetch_all(line).await).await?;
    let rows = rows.iter().map(stored).collect::<Result<_>>()?;
    Ok(page(rows, ask.limit, |row: &Row| Cursor::new(row.ord, row.id.clone())))
}

pub(super) async fn history(
    pool: &Pool,
    pk: ThreadPk,
    before: &MessageId,
    limit: u32,
) -> Result<Vec<ConversationMessage>> {
    let query = sqlx::query_scalar(HISTORY).bind(pk.0).bind(escaped(before.as_str())).bind(i64::from(limit));
    let bodies: Vec<String> = pool.ask(async |line| query.fetch_all(line).await).await?;
    Ok(bodies.iter().filter_map(|body| text::message(body)).collect())
}

pub(super) async fn payloads(pool: &Pool, pk: ThreadPk, ids: &[PayloadId]) -> Result<Vec<(PayloadId, Arc<Value>)>> {
    let ids: Vec<_> = ids.iter().map(|id| escaped(id.as_str())).collect();
    let rows = pool.ask(async |line| sqlx::query_as(PAYLOADS).bind(pk.0).bind(ids).fetch_all(line).await).await?;
    Ok(rows.into_iter().filter_map(|(id, body): (String, String)| text::payload(&unescaped(id), &body)).collect())
}

pub(super) async fn open_suspensions(pool: &Pool, tenant: TenantPk, ask: &PageAsk) -> Result<Page<Found>> {
    let after = Cursor::of(ask)?.map(|cursor| cursor.id).unwrap_or_default();
    let query = sqlx::query(INBOX).bind(tenant.0).bind(escaped(&after)).bind(i64::from(ask.limit) + 1);
    let open = pool.ask(async |line| query.fetch_all(line).await).await?;
    let open = open.iter().map(found).collect::<Result<_>>()?;
    Ok(page(open, ask.limit, |found: &Found| Cursor::new(0, found.row.id.clone())))
}

pub(super) async fn tasks(pool: &Pool, tenant: TenantPk, ask: &PageAsk) -> Result<Page<Found>> {
    let before = Cursor::of(ask)?.map_or_else(|| "task_~".to_owned(), |cursor| cursor.id);
    let query = sqlx::query(TASKS).bind(tenant.0).bind(escaped(&before)).bind(i64::from(ask.limit) + 1);
    let tasks = pool.ask(async |line| query.fetch_all(line).await).await?;
    let tasks = tasks.iter().map(found).collect::<Result<_>>()?;
    Ok(page(tasks, ask.limit, |found: &Found| Cursor::new(0, found.row.id.clone())))
}

pub(super) async fn figures(pool: &Pool) -> Result<Figures> {
    let mut figures = Figures::default();
    let runs: Vec<(String, i64)> = pool.ask(async |line| sqlx::query_as(RUNNING).fetch_all(line).await).await?;
    runs.iter().try_for_each(|(status, count)| figures.run(status, *count))?;
    let asked: Vec<(String, i64, Millis)> = pool.ask(async |line| sqlx::query_as(ASKED).fetch_all(line).await).await?;
    asked.iter().try_for_each(|(kind, count, since)| figures.question(kind, *count, *since))?;
    let (due, oldest): (i64, Option<Millis>) = pool.ask(async |line| sqlx::query_as(DUE).fetch_one(line).await).await?;
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
            " WHERE s.tenant = $1 AND s.kind = 12",
            $of,
            " AND s.ord >= $3 AND ($4::text[] = '{}' OR s.body = ANY ($4))",
            $more
        )
    };
}

macro_rules! standings {
    ($of:literal) => {
        [
            standing!("count(*)", "", $of, ""),
            standing!(
                "r.pk, t.thread_id, r.kind, r.id, r.ord, r.keep, r.body, s.ord AS since",
                "JOIN thread_rows r ON r.pk = s.pk AND r.kind = 1 AND r.id = s.id JOIN threads t ON t.pk = s.pk",
                $of,
                " AND (s.ord, s.id) < ($5, $6) ORDER BY s.ord DESC, s.id DESC LIMIT $7"
            ),
        ]
    };
}

pub(super) async fn runs_by_standing(pool: &Pool, ask: &StandingAsk) -> Result<(Page<Found>, u64)> {
    let [count, list] = match ask.thread {
        Some(_) => standings!(" AND s.pk = $2"),
        None => standings!(" AND $2::bigint IS NULL"),
    };
    let bound = |sql: &'static str| {
        let query = sqlx::query(sql).bind(ask.tenant.0).bind(ask.thread.map(|pk| pk.0));
        query.bind(ask.since.unwrap_or(i64::MIN)).bind(ask.bodies())
    };
    let total: i64 = pool.ask(async |line| bound(count).fetch_one(line).await?.try_get(0)).await?;
    let before = ask.before()?;
    let query = bound(list).bind(before.at).bind(escaped(&before.id)).bind(i64::from(ask.page.limit) + 1);
    let rows = pool.ask(async |line| query.fetch_all(line).await).await?;
    let since = |row: &PgRow| row.try_get::<i64, _>("since").map_err(error);
    let runs = rows.iter().map(|row| Ok((since(row)?, found(row)?))).collect::<Result<Vec<_>>>()?;
    let runs = page(runs, ask.page.limit, |(since, run)| Cursor::new(*since, run.row.id.clone()));
    Ok((runs.map(|(_, run)| run), total.unsigned_abs()))
}

pub(super) async fn observations(pool: &Pool, pk: ThreadPk, ask: &ObservationAsk) -> Result<Vec<Observation>> {
    let types: Vec<&str> = ask.types.iter().map(|kind| kind.as_str()).collect();
    log::observations(ask, |after, limit| {
        let query = sqlx::query(ENTRIES).bind(pk.0).bind(after).bind(types.clone()).bind(limit);
        pool.ask(async |line| query.fetch_all(line).await?.iter().map(entry).collect())
    })
    .await
}

fn entry(row: &PgRow) -> std::result::Result<Entry, sqlx::Error> {
    Ok(Entry { thread: unescaped(row.try_get(0)?).into(), seq: row.try_get(1)?, body: row.try_get(2)? })
}

fn stored(row: &PgRow) -> Result<Row> {
    text::row(
        row.try_get("kind").map_err(error)?,
        unescaped(row.try_get("id").map_err(error)?),
        row.try_get("ord").map_err(error)?,
        row.try_get("keep").map_err(error)?,
        row.try_get("body").map_err(error)?,
    )
}

fn found(row: &PgRow) -> Result<Found> {
    Ok(Found {
        pk: ThreadPk(row.try_get("pk").map_err(error)?),
        thread_id: unescaped(row.try_get("thread_id").map_err(error)?).into(),
        row: stored(row)?,
    })
}
