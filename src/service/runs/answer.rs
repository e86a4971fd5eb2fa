//! What people send to a run: the answer to its question, a pause, an action on an item. Each is one decision of the
//! thread's actor. The response is sent once it is durable.

use serde_json::{Value, json};

use super::process::{no_run, receipt, stored_receipt};
use super::{ItemAction, PushReceiver, PushRegistration, Receipt, ReplyMessage};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{Answer, Suspension, SuspensionStatus};
use crate::domain::ids::{RunId, SuspensionId, ThreadId, ThreadPk};
use crate::domain::lookup::RunLookups;
use crate::domain::message::{ConversationMessage, MessageRole};
use crate::domain::run::{Run, RunStatus};
use crate::engine::event::{AnswerMessage, Event, PersonEvent};
use crate::engine::step::RowKind;
use crate::failpoint;
use crate::runtime::CommitExtras;
use crate::runtime::rows::read;
use crate::service::a2a::pushes;
use crate::service::once::{self, Answered, Idempotent};
use crate::service::{Result, Service, threads};

/// Answers a suspension, once.
pub async fn resume(
    service: &Service,
    caller: &Caller,
    id: &ThreadId,
    answer: Answer,
    key: Option<Idempotent>,
) -> Result<Answered<Receipt>> {
    commit_answer(service, caller, id, answer, None, CommitExtras::default(), key).await
}

/// Answers a suspension, once. The run is found under these lookup keys from then on.
pub async fn resume_with_lookups(
    service: &Service,
    caller: &Caller,
    id: &ThreadId,
    answer: Answer,
    lookups: RunLookups,
    key: Option<Idempotent>,
) -> Result<Answered<Receipt>> {
    let extras = CommitExtras { lookups: Some(lookups), ..CommitExtras::default() };
    commit_answer(service, caller, id, answer, None, extras, key).await
}

/// Answers a suspension, once, with a message that joins the conversation.
pub async fn reply(
    service: &Service,
    caller: &Caller,
    id: &ThreadId,
    answer: Answer,
    message: ReplyMessage,
    key: Option<Idempotent>,
) -> Result<Answered<Receipt>> {
    // The lock is held until the receiver is stored.
    let (_lock, pushes) = match &message.push {
        Some(PushRegistration { run, receiver: PushReceiver { config, version } }) => {
            let lock = pushes::lock(service, caller, run).await?;
            (Some(lock), vec![pushes::receiver_of_message(service, caller, run, config, *version).await?])
        }
        None => (None, Vec::new()),
    };
    let extras = CommitExtras { pushes, lookups: message.lookups, ..CommitExtras::default() };
    let steers = message.steers;
    let message = ConversationMessage {
        message_id: service.mint().message(),
        thread_id: id.clone(),
        role: MessageRole::User,
        content: message.content,
        timestamp: service.now(),
        run_id: None,
        requested_by: Some(caller.name.clone()),
        metadata: message.metadata,
    };
    commit_answer(service, caller, id, answer, Some(Box::new(AnswerMessage { message, steers })), extras, key).await
}

async fn commit_answer(
    service: &Service,
    caller: &Caller,
    id: &ThreadId,
    answer: Answer,
    said: Option<Box<AnswerMessage>>,
    extras: CommitExtras,
    key: Option<Idempotent>,
) -> Result<Answered<Receipt>> {
    let suspension = answer.suspension_id.clone();
    let event = Event::Person(PersonEvent::Resumed { answer: Box::new(answer), by: caller.answerer(), said });
    match act(service, caller, id, event, extras, key).await {
        Err(fault) if fault.code == Code::NotFound => {
            Err(past(service, caller, id, &suspension).await?.unwrap_or(fault))
        }
        answered => {
            failpoint::reached("resume.committed");
            answered
        }
    }
}

/// The fault for a suspension that is no longer open: the engine does not have it any more, but the store does.
async fn past(service: &Service, caller: &Caller, id: &ThreadId, suspension: &SuspensionId) -> Result<Option<Fault>> {
    let thread = threads::row(service, caller, id).await?;
    let row = service.store.row(thread.pk, RowKind::Suspension, suspension.as_str()).await?;
    let Some(past) = row.as_ref().map(read::<Suspension>).transpose()? else { return Ok(None) };
    let fault = match past.status {
        SuspensionStatus::Pending => return Ok(None),
        SuspensionStatus::Resolved => Fault::new(Code::AlreadyResolved, "Somebody answered it first."),
        SuspensionStatus::Expired => Fault::new(Code::Expired, "The time to answer is over."),
        SuspensionStatus::Cancelled if is_cancelled(service, thread.pk, &past.run_id).await? => {
            Fault::new(Code::RunCancelled, "Its run was cancelled.")
        }
        SuspensionStatus::Cancelled => {
            let reason = past.resolution.as_ref().and_then(|resolution| resolution.reason.as_deref());
            let why = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
            let detail = format!("It was withdrawn{why}; look at what is asked now, if anything is.");
            Fault::new(Code::AlreadyResolved, detail)
        }
    };
    Ok(Some(match past.resolution {
        Some(resolution) => fault.with("resolution", json!(resolution)),
        None => fault,
    }))
}

async fn is_cancelled(service: &Service, pk: ThreadPk, run: &RunId) -> Result<bool> {
    let row = service.store.row(pk, RowKind::Run, run.as_str()).await?;
    let run: Option<Run> = row.as_ref().map(read).transpose()?;
    Ok(run.is_none_or(|run| run.status == RunStatus::Cancelled))
}

/// Pauses the active run: opens a suspension, and starts nothing until it is answered.
pub async fn pause(
    service: &Service,
    caller: &Caller,
    id: &ThreadId,
    key: Option<Idempotent>,
) -> Result<Answered<Receipt>> {
    let event = Event::Person(PersonEvent::PauseAsked { by: caller.name.clone() });
    // The observation of a pause makes no line in the audit, so the commit is given one.
    let extras = CommitExtras::audited(caller.name.clone(), "pause", Value::Null);
    act(service, caller, id, event, extras, key).await
}

/// Retries or skips one item of the active run.
pub async fn act_on_item(
    service: &Service,
    caller: &Caller,
    id: &ThreadId,
    action: ItemAction,
    key: Option<Idempotent>,
) -> Result<Answered<Receipt>> {
    let by = caller.name.clone();
    let (event, audit_action, item) = match action {
        ItemAction::Retry(item) => (PersonEvent::ItemRetried { item: item.clone(), by }, "retry item", item),
        ItemAction::Skip(item) => (PersonEvent::ItemSkipped { item: item.clone(), by }, "skip item", item),
    };
    let extras = CommitExtras::audited(caller.name.clone(), audit_action, json!({ "itemId": item }));
    act(service, caller, id, Event::Person(event), extras, key).await
}

async fn act(
    service: &Service,
    caller: &Caller,
    id: &ThreadId,
    event: Event,
    extras: CommitExtras,
    key: Option<Idempotent>,
) -> Result<Answered<Receipt>> {
    service.runtime.accepting()?;
    let work = async {
        let row = threads::row(service, caller, id).await?;
        let extras = CommitExtras { idempotency: stored_receipt(caller, key.as_ref(), id, None), ..extras };
        let decided = service.runtime.decide(row.pk, event, extras).await?;
        Ok(receipt(id, None, &decided).ok_or_else(no_run)?)
    };
    once::perform(service, caller, key.as_ref(), work).await
}
