//! The audit.

use async_trait::async_trait;
use sqlx::{Connection, PgConnection};

use super::Postgres;
use super::fault::error;
use super::nul::escaped;
use super::pool::PgQuery;
use crate::domain::ids::{TenantPk, ThreadId};
use crate::store::audit::page_of_audit_rows;
use crate::store::{AuditRow, AuditStore, Page, PageAsk, Result};

const OF_THREAD: &str = "
SELECT id, pk, tenant, thread_id, at, actor, action, detail FROM audit
WHERE tenant = $1 AND thread_id = $2 AND id > $3 ORDER BY id LIMIT $4";

const OF_TENANT: &str = "
SELECT id, pk, tenant, thread_id, at, actor, action, detail FROM audit
WHERE pk = 0 AND tenant = $1 AND id < $2 ORDER BY id DESC LIMIT $3";

const INSERT: &str = "
INSERT INTO audit (pk, tenant, thread_id, at, actor, action, detail) VALUES ($1, $2, $3, $4, $5, $6, $7)";

#[async_trait]
impl AuditStore for Postgres {
    async fn audit(&self, tenant: TenantPk, thread: &ThreadId, ask: &PageAsk) -> Result<Page<AuditRow>> {
        let query = sqlx::query(OF_THREAD).bind(tenant.0).bind(escaped(thread.as_str()));
        let query = query.bind(ask.after()?).bind(ask.rows());
        page_of_audit_rows(&self.pool.fetch_all(query).await?, ask)
    }

    async fn audit_of_tenant(&self, tenant: TenantPk, ask: &PageAsk) -> Result<Page<AuditRow>> {
        let query = sqlx::query(OF_TENANT).bind(tenant.0).bind(ask.before()?).bind(ask.rows());
        page_of_audit_rows(&self.pool.fetch_all(query).await?, ask)
    }
}

/// Inserts an audit row, in the caller's transaction.
pub(super) async fn insert(transaction: &mut PgConnection, audit_row: &AuditRow) -> Result<()> {
    let query = sqlx::query(INSERT).bind(audit_row.thread.0).bind(audit_row.tenant.0);
    let query = query.bind(audit_row.thread_id.as_ref().map(|id| escaped(id.as_str()))).bind(audit_row.at);
    let query = query.bind(escaped(&audit_row.actor)).bind(escaped(&audit_row.action));
    query.bind(audit_row.detail.to_string()).execute(transaction).await.map_err(error)?;
    Ok(())
}

impl Postgres {
    /// Makes a change and inserts its audit row, in one transaction. Returns how many rows were changed; with 0, nothing is
    /// stored.
    pub(super) async fn change_with_audit(&self, change: PgQuery<'_>, audit_row: &AuditRow) -> Result<u64> {
        let changed = async |connection: &mut PgConnection| {
            // If it is dropped without a commit, it is rolled back.
            let mut transaction = connection.begin().await.map_err(error)?;
            let changed = change.execute(&mut *transaction).await.map_err(error)?.rows_affected();
            if changed > 0 {
                insert(&mut transaction, audit_row).await?;
                transaction.commit().await.map_err(error)?;
            }
            Ok(changed)
        };
        self.pool.with_connection(changed).await
    }
}
