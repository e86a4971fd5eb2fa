//! Delegated tasks as people see them, and the reports of those who carry them out.

use std::sync::atomic::{AtomicBool, Ordering};

use super::command::CommitExtras;
use super::runs::{legible, read};
use super::shared::Shared;
use super::{Result, Runtime};
use crate::domain::caller::Caller;
use crate::domain::fault::Fault;
use crate::domain::ids::{TaskId, TenantPk, ThreadId, ThreadPk};
use crate::domain::task::{Task, TaskResource};
use crate::domain::tool::CallRecord;
use crate::engine::event::{Event, PersonEvent};
use crate::engine::step::RowKind;
use crate::store::{Page, PageAsk};

impl Runtime {
    /// Oldest first.
    pub async fn tasks(&self, caller: &Caller, id: &ThreadId, page: PageAsk) -> Result<Page<TaskResource>> {
        let thread = self.row(caller, id).await?;
        let page = self.0.reads.rows(thread.pk, RowKind::Task, false, &page).await?;
        let mut items = Vec::with_capacity(page.items.len());
        for row in page.items {
            let Some(task) = legible(&row) else { continue };
            items.push(self.task_resource(thread.pk, task).await?);
        }
        Ok(Page { items, next_cursor: page.next_cursor })
    }

    /// Those of all threads of the tenant, newest first.
    pub async fn all_tasks(&self, caller: &Caller, page: PageAsk) -> Result<Page<TaskResource>> {
        let page = self.0.reads.tasks(caller.tenant, &page).await?;
        let mut items = Vec::with_capacity(page.items.len());
        for found in page.items {
            let Some(task) = legible(&found.row) else { continue };
            items.push(self.task_resource(found.pk, task).await?);
        }
        Ok(Page { items, next_cursor: page.next_cursor })
    }

    pub async fn task(&self, caller: &Caller, id: &TaskId) -> Result<TaskResource> {
        let (pk, task) = self.stored_task(caller.tenant, id).await?;
        self.task_resource(pk, task).await
    }

    /// Ends the task and its call; the agent is told. A task that is over stays as it is.
    pub async fn cancel_task(&self, caller: &Caller, id: &TaskId) -> Result<TaskResource> {
        self.0.accepting()?;
        let (pk, task) = self.stored_task(caller.tenant, id).await?;
        if !task.status.is_terminal() {
            let event = Event::Person(PersonEvent::TaskCancelAsked { task: id.clone(), by: caller.name.clone() });
            let detail = serde_json::json!({ "taskId": id });
            let extras =
                CommitExtras { audit: Some((caller.name.clone(), "cancel task", detail)), ..CommitExtras::default() };
            self.decide(pk, event, extras).await?;
        }
        self.task(caller, id).await
    }

    /// Where this server is listened for, once that is known.
    pub fn served_at(&self, base: String) {
        // The first address is the one that agents are told of.
        self.0.base.set(base).ok();
    }

    pub(super) async fn stored_task(&self, tenant: TenantPk, id: &TaskId) -> Result<(ThreadPk, Task)> {
        let found = self.0.store.find_row(tenant, RowKind::Task, id.as_str()).await?;
        let found = found.ok_or_else(|| Fault::not_found("task"))?;
        Ok((found.pk, read(&found.row)?))
    }

    async fn task_resource(&self, pk: ThreadPk, task: Task) -> Result<TaskResource> {
        let call = self.0.reads.row(pk, RowKind::Call, task.call_id.as_str()).await?;
        let call: Option<CallRecord> = call.as_ref().map(read).transpose()?;
        let result = match call.and_then(|call| call.result) {
            Some(result) => Some(self.0.shown(pk, serde_json::json!(result)).await?),
            None => None,
        };
        Ok(task.resource(result))
    }
}

impl Shared {
    /// What stands before the path of a call back; `None`: the agent could not reach it, and is asked instead.
    pub(super) fn base_for(&self, is_loopback: bool) -> Option<String> {
        static WARNED: AtomicBool = AtomicBool::new(false);
        let base = self.base.get()?;
        if is_loopback || self.config.server.public_url.is_some() {
            return Some(base.clone());
        }
        if !WARNED.swap(true, Ordering::SeqCst) {
            tracing::warn!("without PES_PUBLIC_URL other agents cannot report here; they are asked how tasks stand");
        }
        None
    }
}
