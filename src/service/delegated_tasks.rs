//! Delegated tasks: list, read, cancel.

use std::collections::HashMap;

use super::{Result, Service, threads};
use crate::domain::caller::Caller;
use crate::domain::fault::Fault;
use crate::domain::ids::{TaskId, TenantPk, ThreadId, ThreadPk};
use crate::domain::task::{Task, TaskResource};
use crate::domain::tool::CallRecord;
use crate::engine::event::{Event, PersonEvent};
use crate::engine::step::{Row, RowKind};
use crate::runtime::CommitExtras;
use crate::runtime::rows::{legible, read};
use crate::store::{Order, Page, PageAsk};

/// Oldest first.
pub async fn of_thread(service: &Service, caller: &Caller, id: &ThreadId, page: PageAsk) -> Result<Page<TaskResource>> {
    let thread = threads::row(service, caller, id).await?;
    let page = service.reads.rows(thread.pk, RowKind::Task, Order::Ascending, &page).await?;
    let tasks = page.items.iter().filter_map(|row| Some((thread.pk, legible(row)?))).collect();
    Ok(Page { items: resources(service, tasks).await?, next_cursor: page.next_cursor })
}

/// The tasks of all threads of the tenant, newest first.
pub async fn list(service: &Service, caller: &Caller, page: PageAsk) -> Result<Page<TaskResource>> {
    let page = service.reads.tasks(caller.tenant, &page).await?;
    let tasks = page.items.iter().filter_map(|found| Some((found.pk, legible(&found.row)?))).collect();
    Ok(Page { items: resources(service, tasks).await?, next_cursor: page.next_cursor })
}

pub async fn get(service: &Service, caller: &Caller, id: &TaskId) -> Result<TaskResource> {
    let (pk, task) = stored(service, caller.tenant, id).await?;
    let call = service.reads.row(pk, RowKind::Call, task.call_id.as_str()).await?;
    resource(service, pk, task, call.as_ref()).await
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

/// These tasks as clients see them, in their order. Their calls are read in one batch.
async fn resources(service: &Service, tasks: Vec<(ThreadPk, Task)>) -> Result<Vec<TaskResource>> {
    let wanted: Vec<_> = tasks.iter().map(|(pk, task)| (*pk, RowKind::Call, task.call_id.to_string())).collect();
    let found = service.reads.rows_by_id(&wanted).await?;
    let calls: HashMap<_, _> = found.into_iter().map(|(pk, row)| ((pk, row.id.clone()), row)).collect();
    let mut shown = Vec::with_capacity(tasks.len());
    for (pk, task) in tasks {
        let call = calls.get(&(pk, task.call_id.to_string()));
        shown.push(resource(service, pk, task, call).await?);
    }
    Ok(shown)
}

async fn resource(service: &Service, pk: ThreadPk, task: Task, call: Option<&Row>) -> Result<TaskResource> {
    // If the call cannot be read, the task is returned without a result.
    let call: Option<CallRecord> = call.and_then(legible);
    let result = match call.and_then(|call| call.result) {
        Some(result) => Some(service.with_payloads(pk, serde_json::json!(result)).await?),
        None => None,
    };
    Ok(task.resource(result))
}
