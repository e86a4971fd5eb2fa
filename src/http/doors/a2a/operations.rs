//! Every operation of the protocol, independent of the binding: parameters in, result out.

use std::time::Duration;

use serde_json::Value;

use super::caller::A2aRequest;
use super::error::A2aError;
use super::stream::TaskEventStream;
use super::task::{self, TaskDetail};
use super::{card, push, send, stream};
use crate::a2a::fault::{Error, Fault};
use crate::a2a::types::{ListQuery, Message, SendResult, Task, TaskPage, TaskQuery};
use crate::a2a::view;
use crate::a2a::wire::{self, Method, Version};
use crate::domain::fault::Code;
use crate::domain::ids::RunId;
use crate::service::a2a::tasks;
use crate::service::a2a::tasks::RunSnapshotAsk;
use crate::service::once::Answered;
use crate::service::runs;
use crate::store::PageAsk;

/// The default size of a page of tasks, and the largest.
const DEFAULT_PAGE_SIZE: u32 = 50;
const MAX_PAGE_SIZE: u32 = 100;

/// The result of an operation, as JSON of the caller's version.
pub(super) enum OperationResult {
    Value(Value),
    /// A value that was known only when a run ended or was suspended.
    Awaited(Value),
    Events(TaskEventStream),
}

pub(super) async fn perform(ctx: &A2aRequest, params: &Value) -> Result<OperationResult, A2aError> {
    let version = ctx.version;
    let done = match ctx.method() {
        Method::SendMessage => {
            let sent = send::send(ctx, version.read_send_request(params)?).await?;
            return Ok(OperationResult::Awaited(version.sent(&sent)));
        }
        Method::SendStreamingMessage => {
            return stream::send(ctx, version.read_send_request(params)?).await.map(OperationResult::Events);
        }
        Method::SubscribeToTask => {
            return stream::subscribe(ctx, version.read_task_query(params)?).await.map(OperationResult::Events);
        }
        Method::GetTask => version.task(&get(ctx, version.read_task_query(params)?).await?),
        Method::ListTasks => version.task_page(&list(ctx, version.read_list_query(params)?).await?),
        Method::CancelTask => version.task(&cancel(ctx, version.read_task_query(params)?).await?),
        Method::CreatePushConfig => version.push(&push::create(ctx, version.read_push(params)?).await?),
        Method::GetPushConfig => version.push(&push::get(ctx, version.read_push_query(params)?).await?),
        Method::ListPushConfigs => version.push_page(&push::list(ctx, version.read_push_list_query(params)?).await?),
        Method::DeletePushConfig => {
            push::delete(ctx, version.read_push_query(params)?).await?;
            Value::Null
        }
        Method::GetExtendedAgentCard => {
            let card = card::extended(ctx).await?;
            match version {
                Version::V1 => wire::card(&card),
                Version::V03 | Version::V03Rest => wire::card_of_both(&card),
            }
        }
    };
    Ok(OperationResult::Value(done))
}

async fn get(ctx: &A2aRequest, query: TaskQuery) -> Result<Task, A2aError> {
    ctx.check_tenant(query.tenant.as_deref())?;
    let detail = TaskDetail { history: query.history_length, artifacts: true };
    current_task(ctx, &query.id.into(), detail).await
}

/// The current state of the task.
pub(super) async fn current_task(ctx: &A2aRequest, id: &RunId, detail: TaskDetail) -> Result<Task, A2aError> {
    let snapshot = tasks::get(&ctx.app.service, &ctx.caller, id, detail.messages()).await?;
    Ok(task::task(&snapshot, detail))
}

async fn list(ctx: &A2aRequest, query: ListQuery) -> Result<TaskPage, A2aError> {
    ctx.check_tenant(query.tenant.as_deref())?;
    let size = query.page_size.unwrap_or(DEFAULT_PAGE_SIZE);
    if !(1..=MAX_PAGE_SIZE).contains(&size) {
        return Err(Fault::invalid("/pageSize", format!("is not from 1 to {MAX_PAGE_SIZE}")).into());
    }
    let none = TaskPage { tasks: Vec::new(), next_page_token: String::new(), page_size: size, total_size: 0 };
    let statuses = query.status.map(task::run_statuses);
    if statuses.is_some_and(<[_]>::is_empty) {
        return Ok(none);
    }
    let detail = TaskDetail { history: query.history_length, artifacts: query.include_artifacts };
    let ask = RunSnapshotAsk {
        thread: query.context_id.map(Into::into),
        statuses: statuses.unwrap_or_default().to_vec(),
        since: query.status_timestamp_after,
        messages: detail.messages(),
        page: PageAsk { cursor: query.page_token, limit: size },
    };
    let (page, total) = match tasks::list(&ctx.app.service, &ctx.caller, ask).await {
        Err(fault) if fault.code == Code::NotFound => return Ok(none),
        found => found?,
    };
    Ok(TaskPage {
        tasks: page.items.into_iter().map(|snapshot| task::task(&snapshot, detail)).collect(),
        next_page_token: page.next_cursor.unwrap_or_default(),
        page_size: size,
        total_size: u32::try_from(total).unwrap_or(u32::MAX),
    })
}

async fn cancel(ctx: &A2aRequest, query: TaskQuery) -> Result<Task, A2aError> {
    ctx.check_tenant(query.tenant.as_deref())?;
    let id = RunId::from(query.id);
    let over = || Fault::new(Error::TaskNotCancelable, "The task is over; there is nothing to cancel.");
    match runs::cancel(&ctx.app.service, &ctx.caller, &id, None).await {
        Ok(Answered::Fresh(receipt)) if receipt.already => return Err(over().into()),
        Ok(Answered::Fresh(_) | Answered::Replayed(_)) => {}
        Err(fault) if fault.code == Code::RunFinished => return Err(over().into()),
        Err(fault) => return Err(fault.into()),
    }
    current_task(ctx, &id, TaskDetail { history: query.history_length, artifacts: true }).await
}

/// Waits until the task ends or asks something, or until the configured time has passed, and returns the task. Returns
/// only the answer if it asked to be sent as a bare message.
pub(super) async fn wait_for_task(ctx: &A2aRequest, id: &RunId, detail: TaskDetail) -> Result<SendResult, A2aError> {
    let (app, caller) = (&ctx.app, &ctx.caller);
    let settled = tasks::wait(&app.service, caller, id, hold(app.config.a2a.hold_ms));
    let settled = app.while_admitted(&ctx.preferences.pass, settled);
    // A server that is stopping answers with the current state.
    app.stopping.run_until_cancelled(settled).await.transpose()?.transpose()?;
    let snapshot = tasks::get(&app.service, caller, id, detail.messages()).await?;
    let answer = view::answer_of(&snapshot.run, &snapshot.messages).filter(|answer| view::is_bare(answer));
    Ok(match answer {
        Some(answer) => SendResult::Message(Message { task_id: None, ..view::message(answer) }),
        None => SendResult::Task(task::task(&snapshot, detail)),
    })
}

/// 0 means no limit. That is a year here, longer than any connection.
fn hold(ms: u64) -> Duration {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    if ms == 0 { YEAR } else { Duration::from_millis(ms).min(YEAR) }
}
