//! Every operation of the protocol: parameters in, result out, whatever binding they came by.

use std::time::Duration;

use serde_json::Value;

use super::caller::Asker;
use super::refusal::Refusal;
use super::stream::Events;
use super::task::{self, Show};
use super::{card, push, send, stream};
use crate::a2a::fault::{Error, Fault};
use crate::a2a::types::{ListQuery, Message, SendResult, Task, TaskPage, TaskQuery};
use crate::a2a::view;
use crate::a2a::wire::{self, Method};
use crate::domain::caller::Scope;
use crate::domain::fault::Code;
use crate::domain::ids::RunId;
use crate::service::a2a::tasks;
use crate::service::a2a::tasks::RunSnapshotAsk;
use crate::service::once::Answered;
use crate::service::runs;
use crate::store::PageAsk;

/// Tasks of a page when nobody says how many, and at most.
const PAGE: u32 = 50;
const LARGEST_PAGE: u32 = 100;

/// What an operation comes to, as JSON of the caller's version.
pub(super) enum Done {
    Value(Value),
    /// A value that was known only when a run ended or paused.
    Awaited(Value),
    Events(Events),
}

/// What a key must allow, known before anything of a body is read.
pub(super) fn scope(method: Method) -> Scope {
    match method {
        Method::SendMessage
        | Method::SendStreamingMessage
        | Method::CancelTask
        | Method::CreatePushConfig
        | Method::DeletePushConfig => Scope::Run,
        Method::SubscribeToTask
        | Method::GetTask
        | Method::ListTasks
        | Method::GetPushConfig
        | Method::ListPushConfigs
        | Method::GetExtendedAgentCard => Scope::Read,
    }
}

pub(super) async fn perform(asker: &Asker, method: Method, params: &Value) -> Result<Done, Refusal> {
    let version = asker.version;
    let done = match method {
        Method::SendMessage => {
            let sent = send::send(asker, version.read_send_request(params)?).await?;
            return Ok(Done::Awaited(version.sent(&sent)));
        }
        Method::SendStreamingMessage => {
            return stream::send(asker, version.read_send_request(params)?).await.map(Done::Events);
        }
        Method::SubscribeToTask => {
            return stream::subscribe(asker, version.read_task_query(params)?).await.map(Done::Events);
        }
        Method::GetTask => version.task(&get(asker, version.read_task_query(params)?).await?),
        Method::ListTasks => version.task_page(&list(asker, version.read_list_query(params)?).await?),
        Method::CancelTask => version.task(&cancel(asker, version.read_task_query(params)?).await?),
        Method::CreatePushConfig => version.push(&push::create(asker, version.read_push(params)?).await?),
        Method::GetPushConfig => version.push(&push::get(asker, version.read_push_query(params)?).await?),
        Method::ListPushConfigs => version.push_page(&push::list(asker, version.read_push_list_query(params)?).await?),
        Method::DeletePushConfig => {
            push::delete(asker, version.read_push_query(params)?).await?;
            Value::Null
        }
        Method::GetExtendedAgentCard => wire::card(&card::extended(asker).await?),
    };
    Ok(Done::Value(done))
}

async fn get(asker: &Asker, query: TaskQuery) -> Result<Task, Refusal> {
    asker.may(Scope::Read)?;
    asker.check_tenant(query.tenant.as_deref())?;
    let show = Show { history: query.history_length, artifacts: true };
    seen(asker, &query.id.into(), show).await
}

/// The task as it stands now.
pub(super) async fn seen(asker: &Asker, id: &RunId, show: Show) -> Result<Task, Refusal> {
    let snapshot = tasks::get(&asker.app.service, &asker.caller, id, show.wants_messages()).await?;
    Ok(task::task(&snapshot, show))
}

async fn list(asker: &Asker, query: ListQuery) -> Result<TaskPage, Refusal> {
    asker.may(Scope::Read)?;
    asker.check_tenant(query.tenant.as_deref())?;
    let size = query.page_size.unwrap_or(PAGE);
    if !(1..=LARGEST_PAGE).contains(&size) {
        return Err(Fault::invalid("/pageSize", format!("is not from 1 to {LARGEST_PAGE}")).into());
    }
    let none = TaskPage { tasks: Vec::new(), next_page_token: String::new(), page_size: size, total_size: 0 };
    let standings = query.status.map(task::standings);
    if standings.is_some_and(<[_]>::is_empty) {
        return Ok(none);
    }
    let show = Show { history: query.history_length, artifacts: query.include_artifacts };
    let ask = RunSnapshotAsk {
        thread: query.context_id.map(Into::into),
        standings: standings.unwrap_or_default().to_vec(),
        since: query.status_timestamp_after,
        with_messages: show.wants_messages(),
        page: PageAsk { cursor: query.page_token, limit: size },
    };
    let (page, total) = match tasks::list(&asker.app.service, &asker.caller, ask).await {
        Err(fault) if fault.code == Code::NotFound => return Ok(none),
        found => found?,
    };
    Ok(TaskPage {
        tasks: page.items.into_iter().map(|snapshot| task::task(&snapshot, show)).collect(),
        next_page_token: page.next_cursor.unwrap_or_default(),
        page_size: size,
        total_size: u32::try_from(total).unwrap_or(u32::MAX),
    })
}

async fn cancel(asker: &Asker, query: TaskQuery) -> Result<Task, Refusal> {
    asker.may(Scope::Run)?;
    asker.check_tenant(query.tenant.as_deref())?;
    let id = RunId::from(query.id);
    let over = || Fault::new(Error::TaskNotCancelable, "The task is over; there is nothing to cancel.");
    match runs::cancel(&asker.app.service, &asker.caller, &id, None).await {
        Ok(Answered::Fresh(receipt)) if receipt.already => return Err(over().into()),
        Ok(Answered::Fresh(_) | Answered::Replayed { .. }) => {}
        Err(fault) if fault.code == Code::RunFinished => return Err(over().into()),
        Err(fault) => return Err(fault.into()),
    }
    seen(asker, &id, Show { history: query.history_length, artifacts: true }).await
}

/// The task once it is over or asks something, or as it is when it has been waited for long enough; or only its answer,
/// where that wants to be the only thing that is sent.
pub(super) async fn awaited(asker: &Asker, id: &RunId, show: Show) -> Result<SendResult, Refusal> {
    let (app, caller) = (&asker.app, &asker.caller);
    let settled = tasks::wait(&app.service, caller, id, hold(app.config.a2a.hold_ms));
    // A server that stops answers with what there is.
    app.stopping.run_until_cancelled(settled).await.transpose()?;
    let snapshot = tasks::get(&app.service, caller, id, show.wants_messages()).await?;
    let answer = view::answer_of(&snapshot.run, &snapshot.messages).filter(|answer| view::is_bare(answer));
    Ok(match answer {
        Some(answer) => SendResult::Message(Message { task_id: None, ..view::message(answer) }),
        None => SendResult::Task(task::task(&snapshot, show)),
    })
}

/// No bound is a year: longer than any connection.
fn hold(ms: u64) -> Duration {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    if ms == 0 { YEAR } else { Duration::from_millis(ms).min(YEAR) }
}
