//! Delegated tasks: list, read, cancel.

use serde_json::{Value, json};

use super::{Result, Service, pages, threads};
use crate::domain::caller::Caller;
use crate::domain::fault::Fault;
use crate::domain::ids::{TaskId, TenantPk, ThreadId, ThreadPk};
use crate::domain::task::{Task, TaskResource};
use crate::domain::tool::CallRecord;
use crate::engine::event::{Event, PersonEvent};
use crate::engine::step::{Row, RowKind};
use crate::runtime::CommitExtras;
use crate::runtime::rows::{legible, read};
use crate::store::{self, Order, Page, PageAsk, RowKey};

/// Oldest first.
pub async fn of_thread(service: &Service, caller: &Caller, id: &ThreadId, page: PageAsk) -> Result<Page<TaskResource>> {
    let thread = threads::row(service, caller, id).await?;
    let page = service.reads.rows(thread.pk, RowKind::Task, Order::Ascending, &page).await?;
    resources(service, page.filter_map(|row| Some((thread.pk, legible(&row)?)))).await
}

/// The tasks of all threads of the tenant, newest first.
pub async fn list(service: &Service, caller: &Caller, page: PageAsk) -> Result<Page<TaskResource>> {
    let page = service.reads.tasks(caller.tenant, &page).await?;
    resources(service, page.filter_map(|found| Some((found.pk, legible(&found.row)?)))).await
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
        let detail = json!({ "taskId": id });
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

/// These tasks as clients see them, in their order. Their calls are read in one batch, and count as part of the page, as
/// their results do.
async fn resources(service: &Service, tasks: Page<(ThreadPk, Task)>) -> Result<Page<TaskResource>> {
    let call_of = |(pk, task): &(ThreadPk, Task)| -> RowKey { (*pk, RowKind::Call, task.call_id.to_string()) };
    let tasks = pages::within_bytes(&*service.reads, tasks, |task| vec![call_of(task)]).await?;
    let wanted: Vec<_> = tasks.items.iter().map(call_of).collect();
    let calls = store::by_key(service.reads.rows_by_id(&wanted).await?);
    let with_results = tasks.map(|task| {
        let result = result_of(calls.get(&call_of(&task)));
        (task.0, task.1, result)
    });
    let payloads_of = |(pk, _, result): &(ThreadPk, Task, Option<Value>)| pages::payloads_of(*pk, result);
    let Page { items, next_cursor, .. } = pages::within_bytes(&*service.reads, with_results, payloads_of).await?;
    let mut shown = Vec::with_capacity(items.len());
    for (pk, task, result) in items {
        shown.push(with_result(service, pk, task, result).await?);
    }
    Ok(Page::new(shown, next_cursor))
}

async fn resource(service: &Service, pk: ThreadPk, task: Task, call: Option<&Row>) -> Result<TaskResource> {
    with_result(service, pk, task, result_of(call)).await
}

/// The result as stored, which may be a payload reference. `None` as well if the call cannot be read.
fn result_of(call: Option<&Row>) -> Option<Value> {
    Some(json!(call.and_then(legible::<CallRecord>)?.result?))
}

async fn with_result(service: &Service, pk: ThreadPk, task: Task, result: Option<Value>) -> Result<TaskResource> {
    let result = match result {
        Some(result) => Some(service.with_payloads(pk, result).await?),
        None => None,
    };
    Ok(task.resource(result))
}
