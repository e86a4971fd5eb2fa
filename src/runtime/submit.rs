//! What starts or moves a run: process, resume, pause. Each is one decision of the thread's task, answered when durable.

use std::sync::Arc;

use serde_json::{Value, json};

use super::command::{Command, CommitExtras, Decided, Refusal, StoredResponse};
use super::feed::EarlySubscription;
use super::idempotent::Admission;
use super::runs::read;
use super::{Answered, Idempotent, ProcessAsk, Receipt, Result, Runtime, SaidAsk};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{Answer, Suspension, SuspensionStatus};
use crate::domain::ids::{RunId, SuspensionId, ThreadId, ThreadPk};
use crate::domain::message::{ConversationMessage, MessageRole};
use crate::domain::run::{Ask, Run, RunStatus};
use crate::domain::thread::{ThreadProfile, ThreadStatus};
use crate::domain::trace::{TraceOrigin, is_trace_id};
use crate::engine::event::{Event, PersonEvent};
use crate::engine::step::RowKind;
use crate::failpoint;
use crate::outbox::PushTarget;
use crate::store::NewThread;

/// How often a thread's id is looked up again because the thread came or went in between.
const LOOKUPS: usize = 8;

impl Runtime {
    /// Accepts a query; an unknown thread is created by the same commit.
    pub async fn process(
        &self,
        caller: &Caller,
        id: &ThreadId,
        ask: ProcessAsk,
        idempotent: Option<Idempotent>,
    ) -> Result<Answered<Receipt>> {
        Ok(self.process_as(caller, id, ask, idempotent, false).await?.0)
    }

    /// The same, with a subscription to everything that follows; none for an answer that was stored before.
    pub async fn process_heard(
        &self,
        caller: &Caller,
        id: &ThreadId,
        ask: ProcessAsk,
        idempotent: Option<Idempotent>,
    ) -> Result<(Answered<Receipt>, Option<EarlySubscription>)> {
        self.process_as(caller, id, ask, idempotent, true).await
    }

    async fn process_as(
        &self,
        caller: &Caller,
        id: &ThreadId,
        ask: ProcessAsk,
        idempotent: Option<Idempotent>,
        listens: bool,
    ) -> Result<(Answered<Receipt>, Option<EarlySubscription>)> {
        self.0.accepting()?;
        let _flight = match self.0.admit(caller, idempotent.as_ref()).await? {
            Admission::First(flight) => flight,
            Admission::Stored(row) => return Ok((row.into(), None)),
        };
        self.0.tools.toolset(caller.tenant).check_client_tools(&ask.options.client_tools)?;
        let mut mint = self.0.mint();
        let (run, message) = (mint.run(), mint.message());
        let (trace_id, trace) = traced(&ask, || mint.hex());
        let pushes = match &ask.push {
            Some((config, version)) => vec![self.receiver(caller, &run, config, *version)?],
            None => Vec::new(),
        };
        for _ in 0..LOOKUPS {
            let (pk, core, sheet, last_seq) = self.thread_or_new(caller, id).await?;
            let early = listens.then(|| EarlySubscription::new(&self.0.hub, pk, last_seq.unwrap_or(0)));
            let settings = self.0.settings(caller, &core, &sheet.config, &ask.options)?;
            let _room = self.0.can_serve(caller, &settings)?;
            let asked = Ask {
                query: ask.query.clone(),
                metadata: ask.metadata.clone(),
                user_id: ask.user_id.clone(),
                session_id: ask.session_id.clone(),
                trace_id: trace_id.clone(),
                trace: trace.clone(),
                on_busy: ask.on_busy,
                requested_by: caller.name.clone(),
                settings,
            };
            let event = Event::Asked { run: run.clone(), message: message.clone(), ask: Box::new(asked) };
            let created_by = caller.name.clone();
            let new =
                NewThread { tenant: caller.tenant, thread_id: id.clone(), core, created_at: self.0.now(), created_by };
            let extras = CommitExtras {
                create: last_seq.is_none().then_some((new, sheet)),
                kept: kept(caller, &idempotent, id, Some(&run)),
                pushes: pushes.clone(),
                ..CommitExtras::default()
            };
            match self.decide(pk, event, extras).await {
                Err(Refusal::Exists | Refusal::Gone) => {}
                Err(Refusal::Duplicate) => return Ok((self.0.stored(caller, idempotent.as_ref()).await?.into(), None)),
                Err(Refusal::Fault(fault)) => return Err(fault),
                Ok(decided) => {
                    failpoint::reached("process.acked");
                    let receipt = receipt(id, Some(&run), &decided).ok_or_else(no_run)?;
                    return Ok((Answered::Fresh(receipt), early));
                }
            }
        }
        Err(Refusal::Gone.into())
    }

    /// Answers a suspension, once.
    pub async fn resume(
        &self,
        caller: &Caller,
        id: &ThreadId,
        answer: Answer,
        idempotent: Option<Idempotent>,
    ) -> Result<Answered<Receipt>> {
        self.answer(caller, id, answer, None, Vec::new(), idempotent).await
    }

    /// Answers a suspension, once, with a message that joins the conversation.
    pub async fn reply(
        &self,
        caller: &Caller,
        id: &ThreadId,
        answer: Answer,
        said: SaidAsk,
        idempotent: Option<Idempotent>,
    ) -> Result<Answered<Receipt>> {
        let pushes = match &said.push {
            Some((run, config, version)) => vec![self.receiver(caller, run, config, *version)?],
            None => Vec::new(),
        };
        let said = ConversationMessage {
            message_id: self.0.mint().message(),
            thread_id: id.clone(),
            role: MessageRole::User,
            content: said.content,
            timestamp: self.0.now(),
            run_id: None,
            metadata: said.metadata,
        };
        self.answer(caller, id, answer, Some(Box::new(said)), pushes, idempotent).await
    }

    async fn answer(
        &self,
        caller: &Caller,
        id: &ThreadId,
        answer: Answer,
        said: Option<Box<ConversationMessage>>,
        pushes: Vec<PushTarget>,
        idempotent: Option<Idempotent>,
    ) -> Result<Answered<Receipt>> {
        let suspension = answer.suspension_id.clone();
        let event = Event::Person(PersonEvent::Resumed { answer: Box::new(answer), by: caller.name.clone(), said });
        let extras = CommitExtras { pushes, ..CommitExtras::default() };
        match self.act(caller, id, event, extras, idempotent).await {
            Err(fault) if fault.code == Code::NotFound => {
                Err(self.past(caller, id, &suspension).await?.unwrap_or(fault))
            }
            answered => {
                failpoint::reached("resume.committed");
                answered
            }
        }
    }

    /// What became of a suspension that is no longer open: the engine has forgotten it, the store has not.
    async fn past(&self, caller: &Caller, id: &ThreadId, suspension: &SuspensionId) -> Result<Option<Fault>> {
        let thread = self.row(caller, id).await?;
        let row = self.0.store.row(thread.pk, RowKind::Suspension, suspension.as_str()).await?;
        let Some(past) = row.as_ref().map(read::<Suspension>).transpose()? else { return Ok(None) };
        let fault = match past.status {
            SuspensionStatus::Pending => return Ok(None),
            SuspensionStatus::Resolved => Fault::new(Code::AlreadyResolved, "Somebody answered it first."),
            SuspensionStatus::Expired => Fault::new(Code::Expired, "The time to answer is over."),
            SuspensionStatus::Cancelled if self.is_cancelled(thread.pk, &past.run_id).await? => {
                Fault::new(Code::RunCancelled, "Its run was cancelled.")
            }
            SuspensionStatus::Cancelled => {
                Fault::new(Code::AlreadyResolved, "It was withdrawn; look at what is asked now.")
            }
        };
        Ok(Some(match past.resolution {
            Some(resolution) => fault.with("resolution", json!(resolution)),
            None => fault,
        }))
    }

    async fn is_cancelled(&self, pk: ThreadPk, run: &RunId) -> Result<bool> {
        let row = self.0.store.row(pk, RowKind::Run, run.as_str()).await?;
        let run: Option<Run> = row.as_ref().map(read).transpose()?;
        Ok(run.is_none_or(|run| run.status == RunStatus::Cancelled))
    }

    /// Nothing new starts until somebody answers the suspension that this opens.
    pub async fn pause(
        &self,
        caller: &Caller,
        id: &ThreadId,
        idempotent: Option<Idempotent>,
    ) -> Result<Answered<Receipt>> {
        let event = Event::Person(PersonEvent::PauseAsked { by: caller.name.clone() });
        // What is recorded of it does not tell it already.
        let extras =
            CommitExtras { audit: Some((caller.name.clone(), "pause", Value::Null)), ..CommitExtras::default() };
        self.act(caller, id, event, extras, idempotent).await
    }

    async fn act(
        &self,
        caller: &Caller,
        id: &ThreadId,
        event: Event,
        extras: CommitExtras,
        idempotent: Option<Idempotent>,
    ) -> Result<Answered<Receipt>> {
        self.0.accepting()?;
        let _flight = match self.0.admit(caller, idempotent.as_ref()).await? {
            Admission::First(flight) => flight,
            Admission::Stored(row) => return Ok(row.into()),
        };
        let row = self.row(caller, id).await?;
        let extras = CommitExtras { kept: kept(caller, &idempotent, id, None), ..extras };
        match self.decide(row.pk, event, extras).await {
            Err(Refusal::Duplicate) => Ok(self.0.stored(caller, idempotent.as_ref()).await?.into()),
            Err(refusal) => Err(refusal.into()),
            Ok(decided) => receipt(id, None, &decided).map(Answered::Fresh).ok_or_else(no_run),
        }
    }

    /// Hands a decision to the thread's task.
    pub(super) async fn decide(
        &self,
        pk: ThreadPk,
        event: Event,
        extras: CommitExtras,
    ) -> std::result::Result<Decided, Refusal> {
        let (event, extras) = (Arc::new(event), Box::new(extras));
        self.0.ask(pk, |reply| Command::Decide { event, extras, reply }).await
    }

    /// With its last seq, if it is there.
    async fn thread_or_new(
        &self,
        caller: &Caller,
        id: &ThreadId,
    ) -> Result<(ThreadPk, String, ThreadProfile, Option<i64>)> {
        if let Some(row) = self.0.store.thread(caller.tenant, id).await? {
            // Not even read any further: that may be what breaks.
            if row.status == ThreadStatus::Quarantined {
                return Err(Fault::quarantined());
            }
            return Ok((row.pk, row.core, row.sheet, Some(row.last_seq)));
        }
        self.check_id(id)?;
        Ok((self.0.new_pk(), self.0.config.agent.core.clone(), ThreadProfile::default(), None))
    }
}

/// The receipt of the run that was asked for, else of the active one.
fn receipt(id: &ThreadId, run: Option<&RunId>, decided: &Decided) -> Option<Receipt> {
    let asked = decided.runs.iter().find(|moved| Some(&moved.run_id) == run);
    let other = || decided.current.as_ref().or(decided.runs.first());
    let run = asked.or_else(other)?;
    Some(Receipt {
        run_id: run.run_id.clone(),
        thread_id: id.clone(),
        status: run.status,
        events_url: format!("/threads/{id}/events"),
        run_url: format!("/runs/{}", run.run_id),
        suspensions: Vec::new(),
    })
}

/// What is stored under the key: the receipt as it will be answered, a 202.
fn kept(caller: &Caller, key: &Option<Idempotent>, id: &ThreadId, run: Option<&RunId>) -> Option<StoredResponse> {
    let (id, run) = (id.clone(), run.cloned());
    Some(StoredResponse {
        tenant: caller.tenant,
        key: key.clone()?,
        answer: Box::new(move |decided| {
            let receipt = receipt(&id, run.as_ref(), decided);
            let location = receipt.as_ref().map(|receipt| receipt.run_url.clone());
            let body = serde_json::to_string(&receipt).expect("a receipt is plain data");
            (202, body, location)
        }),
    })
}

fn no_run() -> Fault {
    Fault::new(Code::RunFinished, "There is no active run on this thread.")
        .with("status", RunStatus::Completed.as_str())
}

/// The run's trace. A client that names one by its W3C id means that trace; any other text is its own name of it.
fn traced(ask: &ProcessAsk, new: impl FnOnce() -> String) -> (String, TraceOrigin) {
    let told = ask.trace.clone();
    match ask.trace_id.clone() {
        Some(id) if is_trace_id(&id) => {
            let origin = told.filter(|(told, _)| *told == id).map(|(_, origin)| origin);
            (id, origin.unwrap_or_default())
        }
        client_trace_id => {
            let (id, origin) = told.unwrap_or_else(|| (new(), TraceOrigin::default()));
            (id, TraceOrigin { client_trace_id, ..origin })
        }
    }
}
