//! Delegated tasks: list, read, cancel.

use super::{Result, Service, threads};
use crate::domain::caller::Caller;
use crate::domain::fault::Fault;
use crate::domain::ids::{TaskId, TenantPk, ThreadId, ThreadPk};
use crate::domain::task::{Task, TaskResource};
use crate::domain::tool::CallRecord;
use crate::engine::event::{Event, PersonEvent};
use crate::engine::step::RowKind;
use crate::runtime::CommitExtras;
use crate::runtime::rows::{legible, read};
use crate::store::{Page, PageAsk};

/// Oldest first.
pub async fn of_thread(service: &Service, caller: &Caller, id: &ThreadId, page: PageAsk) -> Result<Page<TaskResource>> {
    let thread = threads::row(service, caller, id).await?;
    let page = service.reads.rows(thread.pk, RowKind::Task, false, &page).await?;
    let mut items = Vec::with_capacity(page.items.len());
    for row in page.items {
        let Some(task) = legible(&row) else { continue };
        items.push(task_resource(service, thread.pk, task).await?);
    }
    Ok(Page { items, next_cursor: page.next_cursor })
}

/// The tasks of all threads of the tenant, newest first.
pub async fn list(service: &Service, caller: &Caller, page: PageAsk) -> Result<Page<TaskResource>> {
    let page = service.reads.tasks(caller.tenant, &page).await?;
    let mut items = Vec::with_capacity(page.items.len());
    for found in page.items {
        let Some(task) = legible(&found.row) else { continue };
        items.push(task_resource(service, found.pk, task).await?);
    }
    Ok(Page { items, next_cursor: page.next_cursor })
}

pub async fn get(service: &Service, caller: &Caller, id: &TaskId) -> Result<TaskResource> {
    let (pk, task) = stored(service, caller.tenant, id).await?;
    task_resource(service, pk, task).await
}

/// Ends the task and its call, and sends the agent a cancel request. A task that has ended is returned unchanged.
pub async fn cancel(service: &Service, caller: &Caller, id: &TaskId) -> Result<TaskResource> {
    service.runtime.accepting()?;
    let (pk, task) = stored(service, caller.tenant, id).await?;
    if !task.status.is_terminal() {
        let event = Event::Person(PersonEvent::TaskCancelAsked { task: id.clone(), by: caller.name.clone() });
        let detail = serde_json::json!({ "taskId": id });
        let extras = CommitExtras::audited(caller.name.clone(), "cancel task", detail);
        service.runtime.decide(pk, event, extras).await?;
    }
    get(service, caller, id).await
}

pub(crate) async fn stored(service: &Service, tenant: TenantPk, id: &TaskId) -> Result<(ThreadPk, Task)> {
    let found = service.store.find_row(tenant, RowKind::Task, id.as_str()).await?;
    let found = found.ok_or_else(|| Fault::not_found("task"))?;
    Ok((found.pk, read(&found.row)?))
}

async fn task_resource(service: &Service, pk: ThreadPk, task: Task) -> Result<TaskResource> {
    let call = service.reads.row(pk, RowKind::Call, task.call_id.as_str()).await?;
    // If the call cannot be read, the task is returned without a result.
    let call: Option<CallRecord> = call.as_ref().and_then(legible);
    let result = match call.and_then(|call| call.result) {
        Some(result) => Some(service.with_payloads(pk, serde_json::json!(result)).await?),
        None => None,
    };
    Ok(task.resource(result))
}
