//! `SendMessage`: starts a task, or answers a question of a task.

use serde_json::{Map, Value};

use super::caller::A2aRequest;
use super::error::A2aError;
use super::operations::{current_task, wait_for_task};
use super::reply::NamedQuestion;
use super::task::{self, TaskDetail};
use super::{message, reply};
use crate::a2a::fault::{Error, Fault};
use crate::a2a::types::{Message, Role, SendRequest, SendResult};
use crate::a2a::wire::Version;
use crate::domain::caller::Scope;
use crate::domain::digest;
use crate::domain::fault::Code;
use crate::domain::hitl::Suspension;
use crate::domain::ids::{RunId, SuspensionId, ThreadId};
use crate::http::caller::permit;
use crate::http::doors::{nesting, scope_to_answer};
use crate::service::a2a::tasks;
use crate::service::a2a::tasks::{Messages, RunSnapshot};
use crate::service::feed::{self, EarlySubscription};
use crate::service::once::{self, Answered, Idempotent};
use crate::service::runs::{self, ProcessAsk, PushReceiver, PushRegistration, ReplyMessage};
use crate::service::{suspensions, threads};

/// How the caller gets what comes of its message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplyForm {
    /// As one response.
    Whole,
    /// As events.
    Streamed,
}

/// A message that was accepted.
pub(super) struct AcceptedMessage {
    pub(super) task: RunId,
    /// Why the message does not answer the task's question. Nothing has changed then.
    pub(super) complaint: Option<String>,
    /// A subscription from before the change. `None` for a repeated request, and if the caller does not stream.
    pub(super) early: Option<EarlySubscription>,
    /// The message started the task.
    pub(super) is_new: bool,
}

impl AcceptedMessage {
    fn unchanged(task: RunId, complaint: Option<String>) -> Self {
        Self { task, complaint, early: None, is_new: false }
    }
}

pub(super) async fn send(ctx: &A2aRequest, request: SendRequest) -> Result<SendResult, A2aError> {
    let detail = TaskDetail { history: request.configuration.history_length, artifacts: true };
    let accepted = accept(ctx, &request, ReplyForm::Whole).await?;
    let task = match accepted.complaint {
        Some(complaint) => task::with_complaint(current_task(ctx, &accepted.task, detail).await?, &complaint),
        None if request.configuration.return_immediately => current_task(ctx, &accepted.task, detail).await?,
        None => return wait_for_task(ctx, &accepted.task, detail).await,
    };
    Ok(SendResult::Task(task))
}

/// The message is committed when this returns. The same message under the same id is the same task.
pub(super) async fn accept(
    ctx: &A2aRequest,
    request: &SendRequest,
    form: ReplyForm,
) -> Result<AcceptedMessage, A2aError> {
    ctx.check_tenant(request.tenant.as_deref())?;
    check(ctx, &request.message)?;
    match &request.message.task_id {
        Some(task) => answer(ctx, task.as_str().into(), request, form).await,
        None => start_task(ctx, request, form).await,
    }
}

fn check(ctx: &A2aRequest, message: &Message) -> Result<(), A2aError> {
    if message.role != Role::User {
        return Err(Fault::invalid("/message/role", "is not the user's").into());
    }
    if message.parts.is_empty() {
        return Err(Fault::invalid("/message/parts", "is empty").into());
    }
    let config = &ctx.app.config.a2a;
    let most = config.part_bytes;
    if let Some(at) = message.parts.iter().position(|part| message::size(part) > most) {
        return Err(Fault::invalid(format!("/message/parts/{at}"), format!("is larger than {most} bytes")).into());
    }
    match message.parts.iter().find_map(|part| message::unsupported(config, part)) {
        Some(why) => Err(Fault::new(Error::ContentTypeNotSupported, why).into()),
        None => Ok(()),
    }
}

async fn start_task(ctx: &A2aRequest, request: &SendRequest, form: ReplyForm) -> Result<AcceptedMessage, A2aError> {
    let (service, message) = (&ctx.app.service, &request.message);
    let query = message::query(message);
    if query.trim().is_empty() {
        return Err(Fault::invalid("/message/parts", "says nothing").into());
    }
    let thread = match &message.context_id {
        Some(id) => own_context(ctx, id).await?,
        None => threads::new_id(service),
    };
    let too_deep = || Fault::new(Error::InvalidRequest, nesting::TOO_DEEP);
    let ask = ProcessAsk {
        query,
        trace: Some(nesting::nested_trace(ctx.preferences.trace.clone()).ok_or_else(too_deep)?),
        metadata: Some(stored_metadata(message)),
        push: push_of(ctx, request),
        ..ProcessAsk::default()
    };
    let once = once(ctx, message);
    let (answered, early) = if form == ReplyForm::Streamed {
        runs::process_subscribed(service, &ctx.caller, &thread, ask, once).await?
    } else {
        (runs::process(service, &ctx.caller, &thread, ask, once).await?, None)
    };
    match answered {
        Answered::Fresh(receipt) => Ok(AcceptedMessage { task: receipt.run_id, complaint: None, early, is_new: true }),
        stored @ Answered::Replayed(_) => Ok(AcceptedMessage::unchanged(stored.into_value()?.run_id, None)),
    }
}

/// The push configuration of the request, with the caller's version.
fn push_of(ctx: &A2aRequest, request: &SendRequest) -> Option<PushReceiver> {
    request.configuration.push.clone().map(|config| PushReceiver { config, version: ctx.version })
}

/// The server never creates a context under an id that a client chose.
async fn own_context(ctx: &A2aRequest, id: &str) -> Result<ThreadId, A2aError> {
    let id = ThreadId::from(id);
    match threads::get(&ctx.app.service, &ctx.caller, &id).await {
        Ok(_) => Ok(id),
        Err(fault) if fault.code == Code::NotFound => {
            Err(Fault::invalid("/message/contextId", "names no context; leave it out for a new one").into())
        }
        Err(fault) => Err(fault.into()),
    }
}

async fn answer(
    ctx: &A2aRequest,
    task: RunId,
    request: &SendRequest,
    form: ReplyForm,
) -> Result<AcceptedMessage, A2aError> {
    let (service, message) = (&ctx.app.service, &request.message);
    let snapshot = tasks::get(service, &ctx.caller, &task, Messages::OfFailedRuns).await?;
    let thread = snapshot.run.thread_id.clone();
    if message.context_id.as_ref().is_some_and(|id| id != thread.as_str()) {
        return Err(Fault::invalid("/message/contextId", "is not the task's").into());
    }
    let once = once(ctx, message);
    if let Some(once) = &once
        && once::is_repeat(service, &ctx.caller, once).await?
    {
        return Ok(AcceptedMessage::unchanged(task, None));
    }
    let complain = |complaint| AcceptedMessage::unchanged(task.clone(), Some(complaint));
    let named = named(ctx, &thread, message).await?;
    let open = match question(&snapshot, named.as_ref())? {
        Ok(open) => open,
        Err(complaint) => return Ok(complain(complaint)),
    };
    let scope = scope_to_answer(open.kind);
    permit(&ctx.caller, scope)?;
    // An approval must be meant for the question that the caller has seen.
    let is_unnamed = scope == Scope::Approve && named.is_none();
    if is_unnamed && is_answered_by_others(ctx, &task, &thread).await? {
        return Ok(complain(unnamed(open)));
    }
    let answer = match reply::answer(open, message) {
        Ok(answer) => answer,
        Err(complaint) => return Ok(complain(complaint)),
    };
    let push = push_of(ctx, request).map(|receiver| PushRegistration { run: task.clone(), receiver });
    let said_ask = ReplyMessage {
        content: message::query(message),
        metadata: Some(stored_metadata(message)),
        push,
        ..ReplyMessage::default()
    };
    let early =
        if form == ReplyForm::Streamed { Some(feed::subscribe(service, &ctx.caller, &thread).await?) } else { None };
    match runs::reply(service, &ctx.caller, &thread, answer, said_ask, once).await {
        Ok(_) => Ok(AcceptedMessage { task, complaint: None, early, is_new: false }),
        Err(fault) if fault.code == Code::Invalid => {
            let why = fault.errors.first().map(|pointed| format!(" {}: {}.", pointed.pointer, pointed.detail));
            Ok(complain(format!("{}{}", fault.detail, why.unwrap_or_default())))
        }
        Err(fault) if fault.code == Code::NotFound => Err(gone().into()),
        Err(fault) => Err(fault.into()),
    }
}

/// The question that a message answers: the named one, else the oldest.
fn question<'e>(
    snapshot: &'e RunSnapshot,
    named: Option<&SuspensionId>,
) -> Result<Result<&'e Suspension, String>, A2aError> {
    let Some(oldest) = snapshot.open.first() else {
        let detail = if snapshot.run.status.is_terminal() {
            "The task is over; send the message without a task id."
        } else {
            "The task is working and asks nothing; wait for it, or send the message without a task id."
        };
        return Err(Fault::new(Error::UnsupportedOperation, detail).into());
    };
    let Some(named) = named else { return Ok(Ok(oldest)) };
    let known = snapshot.open.iter().find(|open| open.suspension_id == *named);
    Ok(known.ok_or_else(|| format!("This task has no open question `{named}`.")))
}

/// The question that a message names. A text that begins like a suspension id is plain text if the thread never asked
/// that question.
async fn named(ctx: &A2aRequest, thread: &ThreadId, message: &Message) -> Result<Option<SuspensionId>, A2aError> {
    let id = match reply::named(message) {
        None => return Ok(None),
        Some(NamedQuestion::InData(id)) => return Ok(Some(id)),
        Some(NamedQuestion::InText(id)) => id,
    };
    match suspensions::get(&ctx.app.service, &ctx.caller, &id).await {
        Ok(asked) => Ok((asked.thread_id == *thread).then_some(id)),
        Err(fault) if fault.code == Code::NotFound => Ok(None),
        Err(fault) => Err(fault.into()),
    }
}

/// Whether somebody else answered the task's previous question, or it expired. Then the caller may not have seen the
/// current question yet.
async fn is_answered_by_others(ctx: &A2aRequest, task: &RunId, thread: &ThreadId) -> Result<bool, A2aError> {
    let last = suspensions::last_ended_by(&ctx.app.service, &ctx.caller, thread, task).await?;
    Ok(last.is_some_and(|by| by != ctx.caller.name))
}

fn unnamed(open: &Suspension) -> String {
    let id = &open.suspension_id;
    format!(
        "Somebody else answered what was asked before, or nobody did in time, so it is not certain that you mean this question. Say \
         which: `{id} yes`, or a data part with `\"suspensionId\": \"{id}\"`."
    )
}

fn gone() -> Fault {
    Fault::new(Error::UnsupportedOperation, "The question was answered or withdrawn meanwhile; get the task.")
}

/// The idempotency key. A caller uses a message id only once, except ids that `a2a.reused_message_ids` names.
fn once(ctx: &A2aRequest, message: &Message) -> Option<Idempotent> {
    let reused = &ctx.app.config.a2a.reused_message_ids;
    if reused.iter().any(|start| message.message_id.starts_with(start.as_str())) {
        return None;
    }
    Some(Idempotent {
        key: digest::of(&Value::String(message.message_id.clone())),
        scope: format!("A2A {}", ctx.caller.name),
        fingerprint: digest::of(&Version::V1.message(message)),
    })
}

/// The metadata from which the whole message can be restored.
fn stored_metadata(message: &Message) -> Map<String, Value> {
    Map::from_iter([("a2a".to_owned(), Version::V1.message(message))])
}
