//! The audit.

use async_trait::async_trait;
use rusqlite::{Transaction, params};

use super::Sqlite;
use crate::domain::ids::{TenantPk, ThreadId};
use crate::store::audit::page_of_audit_rows;
use crate::store::{AuditRow, AuditStore, Page, PageAsk, Result};

const OF_THREAD: &str = "
SELECT rowid AS id, pk, tenant, thread_id, at, actor, action, detail FROM audit
WHERE tenant = ? AND thread_id = ? AND rowid > ? ORDER BY rowid LIMIT ?";

const OF_TENANT: &str = "
SELECT rowid AS id, pk, tenant, thread_id, at, actor, action, detail FROM audit
WHERE pk = 0 AND tenant = ? AND rowid < ? ORDER BY rowid DESC LIMIT ?";

pub(super) fn insert(tx: &Transaction<'_>, row: &AuditRow) -> rusqlite::Result<()> {
    insert_prepared(tx, row, &row.detail.to_string())
}

/// `detail` is the row's detail as text.
pub(super) fn insert_prepared(tx: &Transaction<'_>, row: &AuditRow, detail: &str) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "INSERT INTO audit (pk, tenant, at, thread_id, actor, action, detail) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        row.thread.0,
        row.tenant.0,
        row.at,
        row.thread_id.as_ref().map(ThreadId::as_str),
        row.actor,
        row.action,
        detail,
    ])?;
    Ok(())
}

/// Inserts the audit row if a row was changed, and returns whether one was.
pub(super) fn audit_if_changed(tx: &Transaction<'_>, changed: usize, audit_row: &AuditRow) -> rusqlite::Result<bool> {
    if changed > 0 {
        insert(tx, audit_row)?;
    }
    Ok(changed > 0)
}

#[async_trait]
impl AuditStore for Sqlite {
    async fn audit(&self, tenant: TenantPk, thread: &ThreadId, ask: &PageAsk) -> Result<Page<AuditRow>> {
        let query = sqlx::query(OF_THREAD).bind(tenant.0).bind(thread.as_str()).bind(ask.after()?).bind(ask.rows());
        page_of_audit_rows(&query.fetch_all(&self.readers).await.map_err(self.unreadable())?, ask)
    }

    async fn audit_of_tenant(&self, tenant: TenantPk, ask: &PageAsk) -> Result<Page<AuditRow>> {
        let query = sqlx::query(OF_TENANT).bind(tenant.0).bind(ask.before()?).bind(ask.rows());
        page_of_audit_rows(&query.fetch_all(&self.readers).await.map_err(self.unreadable())?, ask)
    }
}
