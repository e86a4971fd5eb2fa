//! Applies observations, and returns them as readers see them.

use std::collections::HashSet;

use serde_json::Value;

use super::Fold;
use super::list::ListFold;
use crate::domain::facts::{
    Fact, PlanBody, PlanUpdateBody, RecordedMessage, StateUpdateBody, Unreadable, WholePlan, WholePlanUpdate,
};
use crate::domain::ids::{ItemId, MessageId, RunId, ThreadId};
use crate::domain::observation::{Observation, Record};
use crate::domain::plan::{ChangeType, TodoItemChange, TodoListChanges};
use crate::domain::{Millis, to_value};

/// What a fact is about, and when it was recorded.
pub(super) struct FactContext<'a> {
    pub thread: &'a ThreadId,
    pub run: &'a RunId,
    pub item: Option<&'a ItemId>,
    pub at: Millis,
}

impl Fold {
    /// Applies the next observation; returns its content as readers see it. One that cannot be read changes nothing but
    /// the seq.
    pub fn apply(&mut self, observation: &Observation) -> Result<Value, Unreadable> {
        self.seq = observation.seq;
        if self.lists_only && !Self::LISTED.contains(&observation.kind) {
            return Ok(observation.content.clone());
        }
        let context = FactContext {
            thread: &observation.thread_id,
            run: &observation.run_id,
            item: observation.parent_id.as_ref(),
            at: observation.timestamp,
        };
        Ok(self.apply_fact(&context, &observation.fact()?).unwrap_or_else(|| observation.content.clone()))
    }

    /// Applies a fact that was recorded just now as `seq` of the thread; returns it as readers see it.
    pub fn record(&mut self, record: &Record, thread: &ThreadId, seq: i64) -> Observation {
        self.seq = seq;
        let context =
            FactContext { thread, run: &record.run_id, item: record.parent_id.as_ref(), at: record.timestamp };
        let is_applied = !self.lists_only || Self::LISTED.contains(&record.kind());
        let whole = if is_applied { self.apply_fact(&context, &record.fact) } else { None };
        let content = whole.unwrap_or_else(|| record.fact.content());
        Observation::with_content(record, content, thread.clone(), seq)
    }

    /// `Some`: readers see this in place of what was recorded.
    fn apply_fact(&mut self, context: &FactContext<'_>, fact: &Fact) -> Option<Value> {
        self.open.apply(context, fact);
        match fact {
            Fact::Intent(body) => self.intent.clone_from(&body.intent),
            Fact::Title(body) => self.title.clone_from(&body.title),
            Fact::Plan(body) => return Some(to_value(&self.apply_plan(body))),
            Fact::PlanUpdate(body) => return Some(to_value(&self.apply_plan_update(body, context.at))),
            Fact::ItemStatusChange(body) => {
                if !self.list.contains(&body.item_id) {
                    let query = self.query_of(context.run);
                    self.list.begin_without_plan(&body.item_id, query, body.item.updated_timestamp);
                }
                self.list.apply_status_change(body);
            }
            // The message of a queued run counts when the run starts, and that of a steer at once.
            Fact::RunStarted(body) => {
                self.messages.push(body.message.clone());
                // No version of a plan: the list is the last run's item, which the run's own item replaces.
                if self.plan_version == 0 {
                    self.list = ListFold::default();
                }
            }
            Fact::FinalResponse(body) => self.messages.push(body.message.clone()),
            Fact::StateUpdate(body) => self.apply_state_update(body),
            Fact::ToolCall(body) => context.item.into_iter().for_each(|item| self.list.calls.add_calls(item, body)),
            Fact::ToolExecution(body) => {
                context.item.into_iter().for_each(|item| self.list.calls.add_result(item, body))
            }
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
    fn apply_plan(&mut self, body: &PlanBody) -> WholePlan {
        self.plan = body.plan.clone();
        self.plan_version = body.plan_version;
        match &body.todo_list {
            Some(list) => self.list = ListFold::new(list, body.step_outputs.clone().unwrap_or_default()),
            None => self.changed = self.list.change(body.changes.as_deref().unwrap_or_default()),
        }
        WholePlan {
            plan: self.plan.clone(),
            plan_version: self.plan_version,
            todo_list: self.list.items(),
            step_outputs: body.step_outputs.clone(),
            raw_output: body.raw_output.clone(),
        }
    }

    /// A `PLAN_UPDATE` without changes names the source of the changes in the `PLAN` before it.
    fn apply_plan_update(&mut self, body: &PlanUpdateBody, timestamp: Millis) -> WholePlanUpdate {
        self.plan_version = body.plan_version;
        if let Some(plan) = &body.plan {
            self.plan = plan.clone();
        }
        let changes = match &body.changes {
            Some(changes) => self.list.change(changes),
            None => std::mem::take(&mut self.changed),
        };
        self.list.reorder(body.order.as_deref().unwrap_or_default());
        WholePlanUpdate {
            plan_version: self.plan_version,
            source: body.source,
            plan: body.plan.clone(),
            todo_list: self.list.items(),
            changes: sorted(changes, timestamp),
        }
    }

    fn apply_state_update(&mut self, body: &StateUpdateBody) {
        self.written.apply(body);
        self.remove_messages(&body.superseded);
        if !body.is_queued() {
            self.messages.extend(body.message.iter().chain(&body.messages).cloned());
            self.summary = body.summary.clone().or(self.summary.take());
        }
    }
}

impl Fold {
    /// The query of the run; empty if it was not recorded here, or as a payload.
    fn query_of(&self, run: &RunId) -> String {
        let is_of_run = |message: &&RecordedMessage| message.run_id.as_ref() == Some(run);
        // They are the newest ones, however many a thread has; the first of them is the query.
        let of_run = self.messages.iter().rev().skip_while(|message| !is_of_run(message)).take_while(is_of_run);
        of_run.last().and_then(|message| message.content.as_str()).unwrap_or_default().to_owned()
    }

    /// Removes these messages, and a summary that covers one of them.
    fn remove_messages(&mut self, superseded: &[MessageId]) {
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
