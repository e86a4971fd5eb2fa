//! The rows of one thread.
//!
//! A kind is compared as `+?`: whether a partial index serves a query, SQLite looks up in what is bound where a mere
//! parameter stands, and then it prepares the query again for every value.

use std::sync::Arc;

use serde_json::Value;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteExecutor, SqlitePool};

use super::fault::unreadable;
use crate::domain::ids::{MessageId, PayloadId, ThreadPk};
use crate::domain::message::ConversationMessage;
use crate::engine::step::{Row, RowKind};
use crate::store::cursor::{Cursor, page};
use crate::store::{Page, PageAsk, Result, text};

pub(super) async fn one(db: &SqlitePool, pk: ThreadPk, kind: RowKind, id: &str) -> Result<Option<Row>> {
    let query = sqlx::query("SELECT kind, id, ord, keep, body FROM thread_rows WHERE pk = ? AND kind = +? AND id = ?");
    let found = query.bind(pk.0).bind(kind.code()).bind(id).fetch_optional(db).await.map_err(unreadable)?;
    found.map(|found| row(&found)).transpose()
}

/// What `load` gives, in its order.
pub(super) async fn kept(db: impl SqliteExecutor<'_>, pk: ThreadPk, floor: i64) -> Result<Vec<Row>> {
    let query = sqlx::query(
        "SELECT kind, id, ord, keep, body FROM thread_rows INDEXED BY rows_kept WHERE pk = ?1 AND keep = 1
         UNION ALL
         SELECT kind, id, ord, keep, body FROM thread_rows INDEXED BY rows_kept
         WHERE pk = ?1 AND keep = 2 AND ord >= ?2
         ORDER BY kind, ord, id",
    );
    let found = query.bind(pk.0).bind(floor).fetch_all(db).await.map_err(unreadable)?;
    found.iter().map(row).collect()
}

macro_rules! select_page {
    ($kind:literal, $compare:literal, $order:literal) => {
        concat!(
            "SELECT kind, id, ord, keep, body FROM thread_rows WHERE pk = ?1 AND kind = ",
            $kind,
            " AND (ord, id) ",
            $compare,
            " (?3, ?4) ORDER BY ord ",
            $order,
            ", id ",
            $order,
            " LIMIT ?5"
        )
    };
}

/// Runs and messages have an index by `ord`, which a query gets that names their kind; the others are few, and are
/// sorted.
fn select_page(kind: RowKind, descending: bool) -> &'static str {
    let [ascending, down] = match kind {
        RowKind::Run => [select_page!("1", ">", "ASC"), select_page!("1", "<", "DESC")],
        RowKind::Message => [select_page!("2", ">", "ASC"), select_page!("2", "<", "DESC")],
        RowKind::Item
        | RowKind::Call
        | RowKind::Turn
        | RowKind::Suspension
        | RowKind::Task
        | RowKind::Payload
        | RowKind::AgentState
        | RowKind::Progress
        | RowKind::Usage
        | RowKind::CallerStatus
        | RowKind::Push => [select_page!("+?2", ">", "ASC"), select_page!("+?2", "<", "DESC")],
    };
    if descending { down } else { ascending }
}

pub(super) async fn list(
    db: &SqlitePool,
    pk: ThreadPk,
    kind: RowKind,
    descending: bool,
    ask: &PageAsk,
) -> Result<Page<Row>> {
    let start = if descending { Cursor::new(i64::MAX, "\u{10FFFF}") } else { Cursor::new(i64::MIN, "") };
    let after = Cursor::of(ask)?.unwrap_or(start);
    let query = sqlx::query(select_page(kind, descending)).bind(pk.0).bind(kind.code()).bind(after.at).bind(after.id);
    let found = query.bind(i64::from(ask.limit) + 1).fetch_all(db).await.map_err(unreadable)?;
    let found = found.iter().map(row).collect::<Result<Vec<_>>>()?;
    Ok(page(found, ask.limit, |row| Cursor::new(row.ord, row.id.clone())))
}

pub(super) async fn history(
    db: &SqlitePool,
    pk: ThreadPk,
    before: &MessageId,
    limit: u32,
) -> Result<Vec<ConversationMessage>> {
    let query = sqlx::query(
        "SELECT body FROM thread_rows WHERE pk = ?1 AND kind = 2
         AND ord < coalesce((SELECT ord FROM thread_rows WHERE pk = ?1 AND kind = 2 AND id = ?2), 9223372036854775807)
         ORDER BY ord DESC, id DESC LIMIT ?3",
    );
    let query = query.bind(pk.0).bind(before.as_str()).bind(i64::from(limit));
    let found = query.fetch_all(db).await.map_err(unreadable)?;
    let bodies: Vec<&str> = found.iter().rev().map(|row| row.try_get(0).map_err(unreadable)).collect::<Result<_>>()?;
    Ok(bodies.into_iter().filter_map(text::message).collect())
}

pub(super) async fn payloads(db: &SqlitePool, pk: ThreadPk, ids: &[PayloadId]) -> Result<Vec<(PayloadId, Arc<Value>)>> {
    let query = sqlx::query(
        "SELECT id, body FROM thread_rows WHERE pk = ? AND kind = +? AND id IN (SELECT value FROM json_each(?))",
    );
    let ids = serde_json::to_string(ids).expect("ids are strings");
    let found = query.bind(pk.0).bind(RowKind::Payload.code()).bind(ids).fetch_all(db).await.map_err(unreadable)?;
    let columns = |row: &SqliteRow| Ok((row.try_get(0).map_err(unreadable)?, row.try_get(1).map_err(unreadable)?));
    let found: Vec<(String, String)> = found.iter().map(columns).collect::<Result<_>>()?;
    Ok(found.iter().filter_map(|(id, body)| text::payload(id, body)).collect())
}

/// Of a query that selects `kind, id, ord, keep, body`.
pub(super) fn row(row: &SqliteRow) -> Result<Row> {
    let columns = || {
        let (kind, keep) = (row.try_get("kind")?, row.try_get("keep")?);
        Ok((kind, row.try_get("id")?, row.try_get("ord")?, keep, row.try_get("body")?))
    };
    let (kind, id, ord, keep, body) = columns().map_err(unreadable)?;
    text::row(kind, id, ord, keep, body)
}
