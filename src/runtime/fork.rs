//! A thread as of an observation: looked at, or continued as a new one.

use serde_json::Value;

use super::command::{CommitExtras, Refusal, StoredResponse};
use super::idempotent::Admission;
use super::threads::fresh;
use super::{Answered, Idempotent, Result, Runtime};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{ThreadId, ThreadPk};
use crate::domain::message::ConversationMessage;
use crate::domain::thread::{ForkedFrom, Thread};
use crate::engine::event::{Event, PersonEvent};
use crate::engine::history::fold::{Fold, agent_state};
use crate::store::{self, NewThread, ThreadRow};

impl Runtime {
    /// A new, idle thread that begins as this one was at `at` (absent = now): what was completed is kept. Where an old log
    /// does not tell the application's state as it was, the copy has today's.
    pub async fn fork(
        &self,
        caller: &Caller,
        id: &ThreadId,
        at: Option<i64>,
        new_id: Option<ThreadId>,
        idempotent: Option<Idempotent>,
    ) -> Result<Answered<Thread>> {
        self.0.accepting()?;
        let _flight = match self.0.admit(caller, idempotent.as_ref()).await? {
            Admission::First(flight) => flight,
            Admission::Stored(row) => return Ok(row.into()),
        };
        let row = self.row(caller, id).await?;
        let at = within(&row, at.unwrap_or(row.last_seq))?;
        let new_id = new_id.unwrap_or_else(|| self.0.mint().thread());
        self.check_id(&new_id)?;
        let fold = self.0.fold_to(row.pk, at).await?;
        let event = Event::Person(PersonEvent::Forked {
            from: ForkedFrom { thread_id: id.clone(), seq: at },
            state: Box::new(self.0.shown(row.pk, fold.view()).await?),
            messages: self.conversation(row.pk, &fold).await?,
            agent_state: match fold.agent_state() {
                Some(told) => agent_state(&self.0.shown(row.pk, told).await?),
                None => self.agent_state(caller, id).await?,
            },
            summary: match fold.summary() {
                Some(summary) => Some(self.0.shown(row.pk, summary.clone()).await?),
                None => None,
            },
        });
        let new = NewThread {
            tenant: caller.tenant,
            thread_id: new_id.clone(),
            core: row.core.clone(),
            created_at: self.0.now(),
            created_by: caller.name.clone(),
        };
        let new_thread = fresh(&new, &row.sheet);
        let extras = CommitExtras {
            kept: kept(caller, idempotent.clone(), &new_thread),
            create: Some((new, row.sheet)),
            audit: Some((caller.name.clone(), "fork", serde_json::json!({ "from": id, "at": at }))),
            ..CommitExtras::default()
        };
        match self.decide(self.0.new_pk(), event, extras).await {
            Ok(decided) => Ok(Answered::Fresh(Thread { last_seq: decided.last_seq, ..new_thread })),
            Err(Refusal::Duplicate) => Ok(self.0.stored(caller, idempotent.as_ref()).await?.into()),
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// The view as of an observation.
    pub(super) async fn state_at(&self, row: &ThreadRow, seq: i64) -> Result<Value> {
        let seq = within(row, seq)?;
        let mut view = self.0.shown(row.pk, self.0.fold_to(row.pk, seq).await?.view()).await?;
        view["threadId"] = row.thread_id.as_str().into();
        view["minSeq"] = row.min_seq.into();
        Ok(view)
    }

    /// The messages that the fold heard: all of them stand in the log.
    async fn conversation(&self, pk: ThreadPk, fold: &Fold) -> Result<Vec<ConversationMessage>> {
        let mut messages = Vec::with_capacity(fold.messages().len());
        for heard in fold.messages() {
            let whole = self.0.shown(pk, heard.clone()).await?;
            messages.push(serde_json::from_value(whole).map_err(damaged)?);
        }
        Ok(messages)
    }
}

fn damaged(error: serde_json::Error) -> Fault {
    store::Error::Damaged(format!("a message in the log: {error}")).into()
}

/// A seq of this thread's log that is still kept; 0 is the thread before its first observation.
fn within(row: &ThreadRow, seq: i64) -> Result<i64> {
    if seq < row.min_seq - 1 {
        let detail = format!("The history begins at {}; what was before is gone.", row.min_seq);
        return Err(Fault::new(Code::HistoryCompacted, detail).with("minSeq", row.min_seq));
    }
    if seq > row.last_seq {
        let detail = format!("The last observation is {}.", row.last_seq);
        return Err(Fault::new(Code::Invalid, detail.clone()).at("/at", detail));
    }
    Ok(seq)
}

fn kept(caller: &Caller, key: Option<Idempotent>, thread: &Thread) -> Option<StoredResponse> {
    let thread = thread.clone();
    Some(StoredResponse {
        tenant: caller.tenant,
        key: key?,
        answer: Box::new(move |decided| {
            let thread = Thread { last_seq: decided.last_seq, ..thread.clone() };
            let body = serde_json::to_string(&thread).expect("a thread is plain data");
            (201, body, Some(format!("/threads/{}", thread.thread_id)))
        }),
    })
}
