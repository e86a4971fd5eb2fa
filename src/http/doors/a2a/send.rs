//! `SendMessage`: a new task, or an answer to one that asks.

use serde_json::{Map, Value};

use super::caller::Asker;
use super::operations::{awaited, seen};
use super::refusal::Refusal;
use super::reply::Named;
use super::task::{self, Show};
use super::{card, message, reply};
use crate::a2a::fault::{Error, Fault};
use crate::a2a::types::{Message, PushConfig, Role, SendRequest, SendResult};
use crate::a2a::wire::Version;
use crate::domain::caller::Scope;
use crate::domain::digest;
use crate::domain::fault::Code;
use crate::domain::hitl::Suspension;
use crate::domain::ids::{RunId, SuspensionId, ThreadId};
use crate::http::doors::scope_to_answer;
use crate::service::a2a::tasks;
use crate::service::a2a::tasks::RunSnapshot;
use crate::service::feed::{self, EarlySubscription};
use crate::service::once::{self, Answered, Idempotent};
use crate::service::runs::{self, ProcessAsk, SaidAsk};
use crate::service::{suspensions, threads};

/// A message that was taken in.
pub(super) struct Accepted {
    pub(super) task: RunId,
    /// Why it was no answer to what the task asks; then nothing has changed.
    pub(super) complaint: Option<String>,
    /// Heard since before; none for a repetition, and where nobody wanted one.
    pub(super) early: Option<EarlySubscription>,
    /// The message began the task.
    pub(super) is_new: bool,
}

impl Accepted {
    fn unchanged(task: RunId, complaint: Option<String>) -> Self {
        Self { task, complaint, early: None, is_new: false }
    }
}

pub(super) async fn send(asker: &Asker, request: SendRequest) -> Result<SendResult, Refusal> {
    let show = Show { history: request.configuration.history_length, artifacts: true };
    let accepted = accept(asker, &request, false).await?;
    let task = match accepted.complaint {
        Some(complaint) => task::complain(seen(asker, &accepted.task, show).await?, &complaint),
        None if request.configuration.return_immediately => seen(asker, &accepted.task, show).await?,
        None => return awaited(asker, &accepted.task, show).await,
    };
    Ok(SendResult::Task(task))
}

/// Durable when it returns. The same message again, under the same id, is the same task.
pub(super) async fn accept(asker: &Asker, request: &SendRequest, listens: bool) -> Result<Accepted, Refusal> {
    asker.may(Scope::Run)?;
    asker.check_tenant(request.tenant.as_deref())?;
    check(asker, &request.message)?;
    match &request.message.task_id {
        Some(task) => answer(asker, task.as_str().into(), request, listens).await,
        None => ask(asker, request, listens).await,
    }
}

fn check(asker: &Asker, message: &Message) -> Result<(), Refusal> {
    if message.role != Role::User {
        return Err(Fault::invalid("/message/role", "is not the user's").into());
    }
    if message.parts.is_empty() {
        return Err(Fault::invalid("/message/parts", "is empty").into());
    }
    let config = &asker.app.config.a2a;
    let named = message.parts.iter().filter_map(|part| part.media_type.as_deref());
    if let Some(unknown) = named.into_iter().find(|media_type| !card::takes(config, media_type)) {
        return Err(Fault::new(Error::ContentTypeNotSupported, format!("Parts of `{unknown}` are not taken.")).into());
    }
    let most = config.part_bytes;
    match message.parts.iter().position(|part| message::size(part) > most) {
        Some(at) => Err(Fault::invalid(format!("/message/parts/{at}"), format!("is larger than {most} bytes")).into()),
        None => Ok(()),
    }
}

async fn ask(asker: &Asker, request: &SendRequest, listens: bool) -> Result<Accepted, Refusal> {
    let (service, message) = (&asker.app.service, &request.message);
    let thread = match &message.context_id {
        Some(id) => own_context(asker, id).await?,
        None => threads::new_id(service),
    };
    let ask = ProcessAsk {
        query: message::query(message),
        trace: Some((asker.trace.0.clone(), asker.trace.1.clone())),
        metadata: Some(kept(message)),
        push: pushed(asker, request),
        ..ProcessAsk::default()
    };
    let once = once(asker, message);
    let (answered, early) = if listens {
        runs::process_subscribed(service, &asker.caller, &thread, ask, once).await?
    } else {
        (runs::process(service, &asker.caller, &thread, ask, once).await?, None)
    };
    match answered {
        Answered::Fresh(receipt) => Ok(Accepted { task: receipt.run_id, complaint: None, early, is_new: true }),
        stored @ Answered::Replayed { .. } => Ok(Accepted::unchanged(stored.into_value()?.run_id, None)),
    }
}

/// The push receiver of the request, in the caller's version.
fn pushed(asker: &Asker, request: &SendRequest) -> Option<(PushConfig, Version)> {
    request.configuration.push.clone().map(|config| (config, asker.version))
}

/// A context is never made of an id that somebody else chose.
async fn own_context(asker: &Asker, id: &str) -> Result<ThreadId, Refusal> {
    let id = ThreadId::from(id);
    match threads::get(&asker.app.service, &asker.caller, &id).await {
        Ok(_) => Ok(id),
        Err(fault) if fault.code == Code::NotFound => {
            Err(Fault::invalid("/message/contextId", "names no context; leave it out for a new one").into())
        }
        Err(fault) => Err(fault.into()),
    }
}

async fn answer(asker: &Asker, task: RunId, request: &SendRequest, listens: bool) -> Result<Accepted, Refusal> {
    let (service, message) = (&asker.app.service, &request.message);
    let snapshot = tasks::get(service, &asker.caller, &task, false).await?;
    let thread = snapshot.run.thread_id.clone();
    if message.context_id.as_ref().is_some_and(|id| id != thread.as_str()) {
        return Err(Fault::invalid("/message/contextId", "is not the task's").into());
    }
    let once = once(asker, message);
    if let Some(once) = &once
        && once::is_repeat(service, &asker.caller, once).await?
    {
        return Ok(Accepted::unchanged(task, None));
    }
    let complain = |complaint| Accepted::unchanged(task.clone(), Some(complaint));
    let named = named(asker, &thread, message).await?;
    let open = match question(&snapshot, named.as_ref())? {
        Ok(open) => open,
        Err(complaint) => return Ok(complain(complaint)),
    };
    let scope = scope_to_answer(open.kind);
    asker.may(scope)?;
    // What lets something happen is meant for the question that was seen.
    let is_unnamed = scope == Scope::Approve && named.is_none();
    if is_unnamed && is_answered_by_others(asker, &task, &thread).await? {
        return Ok(complain(unnamed(open)));
    }
    let answer = match reply::answer(open, message) {
        Ok(answer) => answer,
        Err(complaint) => return Ok(complain(complaint)),
    };
    let push = pushed(asker, request).map(|(config, version)| (task.clone(), config, version));
    let said = SaidAsk { content: message::query(message), metadata: Some(kept(message)), push, found: None };
    let early = if listens { Some(feed::subscribe(service, &asker.caller, &thread).await?) } else { None };
    match runs::reply(service, &asker.caller, &thread, answer, said, once).await {
        Ok(_) => Ok(Accepted { task, complaint: None, early, is_new: false }),
        Err(fault) if fault.code == Code::Invalid => {
            let why = fault.errors.first().map(|pointed| format!(" {}: {}.", pointed.pointer, pointed.detail));
            Ok(complain(format!("{}{}", fault.detail, why.unwrap_or_default())))
        }
        Err(fault) if fault.code == Code::NotFound => Err(gone().into()),
        Err(fault) => Err(fault.into()),
    }
}

/// The question that a message answers: the one that it names, else the oldest.
fn question<'e>(
    snapshot: &'e RunSnapshot,
    named: Option<&SuspensionId>,
) -> Result<Result<&'e Suspension, String>, Refusal> {
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

/// The question that a message names. A text that begins like the name of one is a text, if the thread never asked that.
async fn named(asker: &Asker, thread: &ThreadId, message: &Message) -> Result<Option<SuspensionId>, Refusal> {
    let id = match reply::named(message) {
        None => return Ok(None),
        Some(Named::InData(id)) => return Ok(Some(id)),
        Some(Named::InText(id)) => id,
    };
    match suspensions::get(&asker.app.service, &asker.caller, &id).await {
        Ok(asked) => Ok((asked.thread_id == *thread).then_some(id)),
        Err(fault) if fault.code == Code::NotFound => Ok(None),
        Err(fault) => Err(fault.into()),
    }
}

/// Whether somebody else than the caller answered what the task asked before, or nobody did in time: then the caller may not
/// have seen yet what it asks now.
async fn is_answered_by_others(asker: &Asker, task: &RunId, thread: &ThreadId) -> Result<bool, Refusal> {
    let last = suspensions::last_ended_by(&asker.app.service, &asker.caller, thread, task).await?;
    Ok(last.is_some_and(|by| by != asker.caller.name))
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

/// A caller uses a message id once, but for those that `a2a.reused_message_ids` names.
fn once(asker: &Asker, message: &Message) -> Option<Idempotent> {
    let reused = &asker.app.config.a2a.reused_message_ids;
    if reused.iter().any(|start| message.message_id.starts_with(start.as_str())) {
        return None;
    }
    Some(Idempotent {
        key: digest::of(&Value::String(message.message_id.clone())),
        scope: format!("A2A {}", asker.caller.name),
        fingerprint: digest::of(&Version::V1.message(message)),
    })
}

/// What is stored beside the text, from which the message comes back whole.
fn kept(message: &Message) -> Map<String, Value> {
    Map::from_iter([("a2a".to_owned(), Version::V1.message(message))])
}
