//! Rows found across the threads of a tenant.

use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqlitePool};

use super::fault::unreadable;
use super::rows;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::engine::step::RowKind;
use crate::store::cursor::{Cursor, page};
use crate::store::{Found, Page, PageAsk, Result};

pub(super) async fn find(db: &SqlitePool, tenant: TenantPk, kind: RowKind, id: &str) -> Result<Option<Found>> {
    let query = sqlx::query(
        "SELECT t.pk, t.thread_id, r.kind, r.id, r.ord, r.keep, r.body
         FROM thread_rows r JOIN threads t ON t.pk = r.pk
         WHERE r.tenant = ? AND r.id = ? AND r.kind IN (1, 6, 7) AND r.kind = ?",
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

fn found(row: &SqliteRow) -> Result<Found> {
    let pk = ThreadPk(row.try_get("pk").map_err(unreadable)?);
    let thread_id = row.try_get::<String, _>("thread_id").map_err(unreadable)?.into();
    Ok(Found { pk, thread_id, row: rows::row(row)? })
}
