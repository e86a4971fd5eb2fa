//! Applies observations, and returns them as readers see them.

use std::collections::HashSet;

use serde_json::Value;

use super::Fold;
use super::list::List;
use crate::domain::Millis;
use crate::domain::facts::{Fact, PlanBody, PlanUpdateBody, StateUpdateBody, Unreadable, WholePlan, WholePlanUpdate};
use crate::domain::ids::{ItemId, MessageId, RunId, ThreadId};
use crate::domain::observation::{Observation, Record, RecordMetadata};
use crate::domain::plan::{ChangeType, TodoItemChange, TodoListChanges};

/// What a fact is about, and when it was recorded.
pub(super) struct Place<'a> {
    pub thread: &'a ThreadId,
    pub run: &'a RunId,
    pub item: Option<&'a ItemId>,
    pub at: Millis,
}

impl Fold {
    /// Applies the next observation; returns its content as readers see it. One that cannot be read changes nothing but
    /// the seq.
    pub fn tell(&mut self, told: &Observation) -> Result<Value, Unreadable> {
        self.seq = told.seq;
        if self.lists_only && !Self::LISTED.contains(&told.kind) {
            return Ok(told.content.clone());
        }
        let place =
            Place { thread: &told.thread_id, run: &told.run_id, item: told.parent_id.as_ref(), at: told.timestamp };
        Ok(self.take(&place, &told.fact()?).unwrap_or_else(|| told.content.clone()))
    }

    /// Applies a fact that was recorded just now as `seq` of the thread; returns it as readers see it.
    pub fn record(&mut self, record: Record, thread: &ThreadId, seq: i64) -> Observation {
        self.seq = seq;
        let kind = record.kind();
        let place = Place { thread, run: &record.run_id, item: record.parent_id.as_ref(), at: record.timestamp };
        let is_heard = !self.lists_only || Self::LISTED.contains(&kind);
        let whole = if is_heard { self.take(&place, &record.fact) } else { None };
        Observation {
            seq,
            id: record.id,
            thread_id: thread.clone(),
            run_id: record.run_id,
            parent_id: record.parent_id,
            trace_id: record.trace_id,
            timestamp: record.timestamp,
            kind,
            title: record.title,
            content: whole.unwrap_or_else(|| record.fact.content()),
            metadata: record.metadata.as_ref().map(RecordMetadata::value),
        }
    }

    /// `Some`: readers see this in place of what was recorded.
    fn take(&mut self, place: &Place<'_>, fact: &Fact) -> Option<Value> {
        self.open.tell(place, fact);
        match fact {
            Fact::Intent(told) => self.intent.clone_from(&told.intent),
            Fact::Title(told) => self.title.clone_from(&told.title),
            Fact::Plan(told) => return Some(value(&self.planned(told))),
            Fact::PlanUpdate(told) => return Some(value(&self.updated(told, place.at))),
            Fact::ItemStatusChange(told) => self.list.moved(told),
            // The message of a queued run counts when the run starts, and that of a steer at once.
            Fact::RunStarted(told) => self.messages.push(told.message.clone()),
            Fact::FinalResponse(told) => self.messages.push(told.message.clone()),
            Fact::StateUpdate(told) => self.state_updated(told),
            Fact::ToolCall(told) => place.item.into_iter().for_each(|item| self.list.calls.made(item, told)),
            Fact::ToolExecution(told) => place.item.into_iter().for_each(|item| self.list.calls.ended(item, told)),
            Fact::LlmStreamStart(_)
            | Fact::LlmStreamMetadata(_)
            | Fact::LlmStreamEnd(_)
            | Fact::LlmStreamError(_)
            | Fact::Thoughts(_)
            | Fact::AgentSuspended(_)
            | Fact::AgentResumed(_)
            | Fact::SuspensionTimeout(_)
            | Fact::A2aTask(_)
            | Fact::Synthesis(_)
            | Fact::Error(_)
            | Fact::RunFinished(_) => {}
        }
        None
    }

    /// A `PLAN` holds changes, or a whole list where a history begins.
    fn planned(&mut self, told: &PlanBody) -> WholePlan {
        self.plan = told.plan.clone();
        self.plan_version = told.plan_version;
        match &told.todo_list {
            Some(list) => self.list = List::new(list, told.step_outputs.clone().unwrap_or_default()),
            None => self.changed = self.list.change(told.changes.as_deref().unwrap_or_default()),
        }
        WholePlan {
            plan: self.plan.clone(),
            plan_version: self.plan_version,
            todo_list: self.list.items(),
            step_outputs: told.step_outputs.clone(),
            raw_output: told.raw_output.clone(),
        }
    }

    /// A `PLAN_UPDATE` without changes names the source of the changes in the `PLAN` before it.
    fn updated(&mut self, told: &PlanUpdateBody, timestamp: Millis) -> WholePlanUpdate {
        self.plan_version = told.plan_version;
        if let Some(plan) = &told.plan {
            self.plan = plan.clone();
        }
        let changes = match &told.changes {
            Some(changes) => self.list.change(changes),
            None => std::mem::take(&mut self.changed),
        };
        self.list.reorder(told.order.as_deref().unwrap_or_default());
        WholePlanUpdate {
            plan_version: self.plan_version,
            source: told.source,
            plan: told.plan.clone(),
            todo_list: self.list.items(),
            changes: sorted(changes, timestamp),
        }
    }

    fn state_updated(&mut self, told: &StateUpdateBody) {
        self.written.tell(told);
        self.forget(&told.superseded);
        if !told.is_queued() {
            self.messages.extend(told.message.iter().chain(&told.messages).cloned());
            self.summary = told.summary.clone().or(self.summary.take());
        }
    }
}

impl Fold {
    /// Removes these messages, and a summary that covers one of them.
    fn forget(&mut self, superseded: &[MessageId]) {
        if superseded.is_empty() {
            return;
        }
        let gone: HashSet<&MessageId> = superseded.iter().collect();
        self.messages.retain(|message| !gone.contains(&message.message_id));
        self.summary = self.summary.take().filter(|summary| !gone.contains(&summary.upto));
    }
}

/// All changes, and then the same by kind.
fn sorted(changes: Vec<TodoItemChange>, timestamp: Millis) -> TodoListChanges {
    let of = |kind: ChangeType| changes.iter().filter(|change| change.kind == kind).cloned().collect();
    let (added, modified, removed) = (of(ChangeType::Added), of(ChangeType::Modified), of(ChangeType::Removed));
    TodoListChanges { timestamp, changes, added, modified, removed }
}

fn value(whole: &impl serde::Serialize) -> Value {
    serde_json::to_value(whole).expect("our own types have string keys and finite numbers")
}
