//! The audit: who decided what on threads, and who configured what.

use async_trait::async_trait;
use serde_json::Value;

use super::columns::Columns;
use super::page::{Cursor, Page, PageAsk, page_of};
use super::{Result, text};
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadId, ThreadPk};

#[derive(Clone, Debug, PartialEq)]
pub struct AuditRow {
    pub tenant: TenantPk,
    /// [`ThreadPk::NONE`] for what concerns the tenant as a whole.
    pub thread: ThreadPk,
    /// The id of the thread that was changed. The thread may be deleted by now.
    pub thread_id: Option<ThreadId>,
    pub at: Millis,
    pub actor: String,
    pub action: String,
    pub detail: Value,
}

/// What is read of the audit. A part of [`Reads`](super::Reads).
#[async_trait]
pub trait AuditStore: Send + Sync + 'static {
    /// The lines of all threads that have or had this id, oldest first.
    async fn audit(&self, tenant: TenantPk, thread: &ThreadId, page: &PageAsk) -> Result<Page<AuditRow>>;
    /// The lines of the tenant itself (configuration, keys, deleted threads), newest first.
    async fn audit_of_tenant(&self, tenant: TenantPk, page: &PageAsk) -> Result<Page<AuditRow>>;
}

impl AuditRow {
    /// A line about the tenant as a whole.
    pub(crate) fn of_tenant(tenant: TenantPk, at: Millis, actor: &str, action: &str, detail: Value) -> Self {
        let (actor, action) = (actor.to_owned(), action.to_owned());
        Self { tenant, thread: ThreadPk::NONE, thread_id: None, at, actor, action, detail }
    }

    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        Ok(Self {
            tenant: TenantPk(row.number("tenant")?),
            thread: ThreadPk(row.number("pk")?),
            thread_id: row.name_or_none("thread_id")?.map(ThreadId::from),
            at: row.number("at")?,
            actor: row.name("actor")?,
            action: row.name("action")?,
            detail: text::audit_detail(row.text("detail")?),
        })
    }
}

/// A page of lines; `id` is in the order in which they were written.
pub(crate) fn page_of_audit_rows(rows: &[impl Columns], ask: &PageAsk) -> Result<Page<AuditRow>> {
    page_of(rows, ask, AuditRow::read, |row, _| Ok(Cursor::new(row.number("id")?, "")))
}
