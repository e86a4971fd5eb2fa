//! The audit.

use async_trait::async_trait;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{Connection, PgConnection};

use super::Postgres;
use super::fault::error;
use super::nul::escaped;
use crate::domain::ids::{TenantPk, ThreadId};
use crate::store::audit::page_of_lines;
use crate::store::{AuditRow, AuditStore, Page, PageAsk, Result};

const OF_THREAD: &str = "
SELECT id, pk, tenant, thread_id, at, actor, action, detail FROM audit WHERE tenant = $1 AND thread_id = $2 ORDER BY id";

const OF_TENANT: &str = "
SELECT id, pk, tenant, thread_id, at, actor, action, detail FROM audit
WHERE pk = 0 AND tenant = $1 AND id < $2 ORDER BY id DESC LIMIT $3";

const NOTE: &str = "
INSERT INTO audit (pk, tenant, thread_id, at, actor, action, detail) VALUES ($1, $2, $3, $4, $5, $6, $7)";

#[async_trait]
impl AuditStore for Postgres {
    async fn audit(&self, tenant: TenantPk, thread: &ThreadId) -> Result<Vec<AuditRow>> {
        let query = sqlx::query(OF_THREAD).bind(tenant.0).bind(escaped(thread.as_str()));
        self.pool.ask(async |line| query.fetch_all(line).await).await?.iter().map(AuditRow::read).collect()
    }

    async fn audit_of_tenant(&self, tenant: TenantPk, ask: &PageAsk) -> Result<Page<AuditRow>> {
        let query = sqlx::query(OF_TENANT).bind(tenant.0).bind(ask.before()?).bind(ask.rows());
        page_of_lines(&self.pool.ask(async |line| query.fetch_all(line).await).await?, ask)
    }
}

/// Adds a line.
pub(super) async fn note(transaction: &mut PgConnection, line: &AuditRow) -> Result<()> {
    let query = sqlx::query(NOTE).bind(line.thread.0).bind(line.tenant.0);
    let query = query.bind(line.thread_id.as_ref().map(|id| escaped(id.as_str()))).bind(line.at);
    let query = query.bind(escaped(&line.actor)).bind(escaped(&line.action)).bind(line.detail.to_string());
    query.execute(transaction).await.map_err(error)?;
    Ok(())
}

/// Changes one row, and says so in the audit; `false`: there was none to change.
pub(super) async fn told(
    line: &mut PgConnection,
    change: Query<'_, sqlx::Postgres, PgArguments>,
    audit: &AuditRow,
) -> Result<bool> {
    // Dropped without a commit, it is rolled back.
    let mut transaction = line.begin().await.map_err(error)?;
    if change.execute(&mut *transaction).await.map_err(error)?.rows_affected() == 0 {
        return Ok(false);
    }
    note(&mut transaction, audit).await?;
    transaction.commit().await.map_err(error)?;
    Ok(true)
}
