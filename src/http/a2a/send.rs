//! `SendMessage`: a new task, or an answer to one that asks.

use serde_json::{Map, Value};

use super::caller::Asker;
use super::operations::{awaited, seen};
use super::refusal::Refusal;
use super::task::{self, Show};
use super::{message, reply};
use crate::a2a::fault::{Error, Fault};
use crate::a2a::types::{Message, Role, SendRequest, Sent};
use crate::a2a::wire::Version;
use crate::domain::caller::Scope;
use crate::domain::digest;
use crate::domain::fault::Code;
use crate::domain::hitl::{Suspension, SuspensionKind};
use crate::domain::ids::{RunId, ThreadId};
use crate::runtime::{Answered, Errand, Idempotent, ProcessAsk, Receipt, SaidAsk};

/// A message that was taken in.
pub(super) struct Accepted {
    pub(super) task: RunId,
    /// Why it was no answer to what the task asks; then nothing has changed.
    pub(super) complaint: Option<String>,
}

pub(super) async fn send(asker: &Asker, request: SendRequest) -> Result<Sent, Refusal> {
    if request.configuration.push.is_some() {
        return Err(Fault::new(Error::PushNotificationNotSupported, "Leave the push configuration out.").into());
    }
    let show = Show { history: request.configuration.history_length, artifacts: true };
    let accepted = accept(asker, &request).await?;
    let task = match accepted.complaint {
        Some(complaint) => task::complain(seen(asker, &accepted.task, show).await?, &complaint),
        None if request.configuration.return_immediately => seen(asker, &accepted.task, show).await?,
        None => awaited(asker, &accepted.task, show).await?,
    };
    Ok(Sent::Task(task))
}

/// Durable when it returns. The same message again, under the same id, is the same task.
pub(super) async fn accept(asker: &Asker, request: &SendRequest) -> Result<Accepted, Refusal> {
    asker.may(Scope::Run)?;
    asker.check_tenant(request.tenant.as_deref())?;
    check(asker, &request.message)?;
    match &request.message.task_id {
        Some(task) => answer(asker, task.as_str().into(), &request.message).await,
        None => ask(asker, &request.message).await,
    }
}

fn check(asker: &Asker, message: &Message) -> Result<(), Refusal> {
    if message.role != Role::User {
        return Err(Fault::invalid("/message/role", "is not the user's").into());
    }
    if message.parts.is_empty() {
        return Err(Fault::invalid("/message/parts", "is empty").into());
    }
    let most = asker.front.config.a2a.part_bytes;
    match message.parts.iter().position(|part| message::size(part) > most) {
        Some(at) => Err(Fault::invalid(format!("/message/parts/{at}"), format!("is larger than {most} bytes")).into()),
        None => Ok(()),
    }
}

async fn ask(asker: &Asker, message: &Message) -> Result<Accepted, Refusal> {
    let runtime = &asker.front.runtime;
    let thread = match &message.context_id {
        Some(id) => own_context(asker, id).await?,
        None => runtime.new_thread_id(),
    };
    let ask = ProcessAsk {
        query: message::query(message),
        trace_id: Some(asker.trace_id.clone()),
        metadata: Some(kept(message)),
        ..ProcessAsk::default()
    };
    let receipt = match runtime.process(&asker.caller, &thread, ask, once(asker, message)).await {
        Ok(Answered::Fresh(receipt)) => receipt,
        Ok(Answered::Replayed { body, .. }) => {
            let damaged = |error| Fault::new(Error::Internal, format!("The stored answer is damaged: {error}."));
            serde_json::from_str::<Receipt>(&body).map_err(damaged)?
        }
        Err(fault) => return Err(fault.into()),
    };
    Ok(Accepted { task: receipt.run_id, complaint: None })
}

/// A context is never made of an id that somebody else chose.
async fn own_context(asker: &Asker, id: &str) -> Result<ThreadId, Refusal> {
    let id = ThreadId::from(id);
    match asker.front.runtime.thread(&asker.caller, &id).await {
        Ok(_) => Ok(id),
        Err(fault) if fault.code == Code::NotFound => {
            Err(Fault::invalid("/message/contextId", "names no context; leave it out for a new one").into())
        }
        Err(fault) => Err(fault.into()),
    }
}

async fn answer(asker: &Asker, task: RunId, message: &Message) -> Result<Accepted, Refusal> {
    let runtime = &asker.front.runtime;
    let errand = runtime.errand(&asker.caller, &task, false).await?;
    let thread = errand.run.thread_id.clone();
    if message.context_id.as_ref().is_some_and(|id| id != thread.as_str()) {
        return Err(Fault::invalid("/message/contextId", "is not the task's").into());
    }
    let once = once(asker, message);
    if let Some(once) = &once
        && runtime.is_repeat(&asker.caller, once).await?
    {
        return Ok(Accepted { task, complaint: None });
    }
    let complain = |complaint| Accepted { task: task.clone(), complaint: Some(complaint) };
    let open = match question(&errand, message)? {
        Ok(open) => open,
        Err(complaint) => return Ok(complain(complaint)),
    };
    asker.may(needed(open.kind))?;
    let answer = match reply::answer(open, message) {
        Ok(answer) => answer,
        Err(complaint) => return Ok(complain(complaint)),
    };
    let said = SaidAsk { content: message::query(message), metadata: Some(kept(message)) };
    match runtime.reply(&asker.caller, &thread, answer, said, once).await {
        Ok(_) => Ok(Accepted { task, complaint: None }),
        Err(fault) if fault.code == Code::Invalid => {
            let why = fault.errors.first().map(|pointed| format!(" {}: {}.", pointed.pointer, pointed.detail));
            Ok(complain(format!("{}{}", fault.detail, why.unwrap_or_default())))
        }
        Err(fault) if fault.code == Code::NotFound => Err(gone().into()),
        Err(fault) => Err(fault.into()),
    }
}

/// The question that a message answers: the one that it names, else the oldest.
fn question<'e>(errand: &'e Errand, message: &Message) -> Result<Result<&'e Suspension, String>, Refusal> {
    let Some(oldest) = errand.open.first() else {
        let detail = match errand.run.status.is_terminal() {
            true => "The task is over; send the message without a task id.",
            false => "The task is working and asks nothing; wait for it, or send the message without a task id.",
        };
        return Err(Fault::new(Error::UnsupportedOperation, detail).into());
    };
    let Some(named) = reply::named(message) else { return Ok(Ok(oldest)) };
    let known = errand.open.iter().find(|open| open.suspension_id.as_str() == named);
    Ok(known.ok_or_else(|| format!("This task has no open question `{named}`.")))
}

fn gone() -> Fault {
    Fault::new(Error::UnsupportedOperation, "The question was answered or withdrawn meanwhile; get the task.")
}

/// Who asked for a task may say more about it; what it may do is for those to say who may approve.
fn needed(kind: SuspensionKind) -> Scope {
    match kind {
        SuspensionKind::Input | SuspensionKind::ClientTool | SuspensionKind::PeerInput | SuspensionKind::PeerAuth => {
            Scope::Run
        }
        SuspensionKind::Approval
        | SuspensionKind::InDoubt
        | SuspensionKind::Budget
        | SuspensionKind::PlanReview
        | SuspensionKind::Pause => Scope::Approve,
    }
}

/// A caller uses a message id once, but for those that a scripted model wants to be new every time.
fn once(asker: &Asker, message: &Message) -> Option<Idempotent> {
    if asker.front.runtime.is_fresh(&message.message_id) {
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
