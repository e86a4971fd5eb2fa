//! What the machine remembers, and what of it waits for what.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::budget::Granted;
pub(super) use super::call::{ModelCall, ModelSlot, Repair};
use super::cancel::Ends;
use super::list::TodoList;
use super::review::Review;
use super::summary::Summary;
use crate::domain::Millis;
use crate::domain::hitl::Suspension;
use crate::domain::ids::{CallId, ItemId, MessageId, RunId, SuspensionId, TaskId, ThreadId};
use crate::domain::plan::{ItemStatus, StepType, ToolValidationMode, ValidationStatus};
use crate::domain::run::{Counters, Run};
use crate::domain::settings::RunSettings;
use crate::domain::task::Task;
use crate::domain::thread::AgentState;
use crate::domain::tool::{CallRecord, CallStatus};
use crate::parse::PlanPatchDraft;
use crate::step::Row;

/// What a run consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Shape {
    /// Plan, items, synthesis.
    #[default]
    Planned,
    /// One implicit item whose result is the answer.
    Single,
}

pub struct State {
    pub(super) shape: Shape,
    pub(super) thread_id: ThreadId,
    pub(super) head: Head,
    /// The active run; its counters are the live ones.
    pub(super) run: Option<Run>,
    /// Queued runs by id, each with its row's number; `head.queue` has their order.
    pub(super) queued: BTreeMap<RunId, (i64, Run)>,
    pub(super) list: TodoList,
    pub(super) calls: BTreeMap<CallId, Call>,
    /// Delegated tasks that something is left to do about, each with its row's number.
    pub(super) tasks: BTreeMap<TaskId, (i64, Task)>,
    /// Open ones only, oldest first.
    pub(super) suspensions: BTreeMap<i64, Suspension>,
    pub(super) agent_state: AgentState,
    /// Items that left the list during this run, with the planVersion of that change.
    pub(super) removed: BTreeMap<ItemId, i64>,
    pub(super) last_seq: i64,
    /// Rows that could not be read.
    pub(super) unreadable: Vec<Row>,
}

/// The part that is written with every transition; it holds nothing that grows with the plan or the history.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Head {
    pub version: u32,
    pub phase: Phase,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub intent: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Text, or a reference to it.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub plan: Value,
    pub plan_version: i64,
    /// How much was said in this conversation, in bytes.
    #[serde(skip_serializing_if = "is_nothing")]
    pub said: u64,
    /// What was said first, if it was too much for a prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// The next number of a row.
    pub ord: i64,
    pub floor: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<Active>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queue: Vec<RunId>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub quarantined: bool,
    /// Who shaped what the next run finds: edits of an idle plan, and work that the last run left undone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shapers: Vec<String>,
}

/// What the active run is in the middle of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Active {
    pub run: RunId,
    /// The number of the run's row.
    pub ord: i64,
    pub counters: Counters,
    /// Planning, refining or synthesizing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelCall>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steers: Vec<Steer>,
    #[serde(default, skip_serializing_if = "Replan::is_unasked")]
    pub replan: Replan,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<Cancel>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<SuspensionId>,
    /// A person is asked for a larger budget; nothing new begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<SuspensionId>,
    #[serde(default, skip_serializing_if = "Granted::is_nothing")]
    pub granted: Granted,
    /// The largest prompt so far with its reply, in tokens.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub largest: u64,
    /// What the planner must be told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Its plan has been made or refined.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub planned: bool,
    /// Whether a person has seen its plan.
    #[serde(default, skip_serializing_if = "Review::is_untouched")]
    pub review: Review,
    /// Set by `onItemFailure: stop`: nothing new begins.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Phase {
    #[default]
    Idle,
    Planning,
    Refining,
    Executing,
    Synthesizing,
}

/// A message that came in while the run was active and changes its course.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Steer {
    pub message: MessageId,
    /// Text, or a reference to it.
    pub text: Value,
    /// Shown to a refinement; from then on it is part of what was asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shown: bool,
}

/// Whether the planner is asked to plan around a failed item: at most once per run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Replan {
    #[default]
    Unasked,
    Due,
    Done,
}

impl Replan {
    fn is_unasked(&self) -> bool {
        *self == Replan::Unasked
    }
}

/// A cancel was asked for; it completes when no slot is `Running` any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Cancel {
    pub by: String,
    pub reason: String,
    /// What the run ends as.
    #[serde(default, skip_serializing_if = "Ends::is_cancelled")]
    pub ends: Ends,
}

/// A todo item: what it is, how it goes, and what happened in it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item {
    /// Its place in the list.
    pub ord: i64,
    pub def: Definition,
    pub progress: Progress,
    /// Every call made for it, in order.
    pub calls: Vec<CallId>,
    /// Its loop so far; forgotten when the run ends.
    pub turns: Vec<Turn>,
}

/// What an item is: written when the plan changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Definition {
    pub id: ItemId,
    pub description: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<ItemId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_type: Option<StepType>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_tools: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_outcome: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_validation_mode: Option<ToolValidationMode>,
    pub created: Millis,
    /// The planVersion that it came with.
    pub since: i64,
    /// The planVersion of a person's last edit of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited: Option<i64>,
}

/// How an item goes: written with every transition of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Progress {
    pub status: ItemStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The result, or a reference to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<ValidationStatus>,
    pub updated: Millis,
    /// How often it was begun.
    pub attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// It was completed and is done again: what it calls may have had its effect already.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub redone: bool,
    /// What it depends on and was done again after it was completed: its result rests on what that came to before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outdated: Vec<ItemId>,
    /// Cancelled by an edit of the plan (a person's or a planner's), which does not make the run `partial`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub edited_away: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<ItemLoop>,
}

/// An item's loop while it is open.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ItemLoop {
    /// Model calls so far; enforcement and repair do not count.
    pub iteration: u32,
    #[serde(skip_serializing_if = "is_zero")]
    pub enforced: u32,
    #[serde(skip_serializing_if = "is_zero")]
    pub repaired: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelCall>,
    /// The calls of the last reply, in its order, until all of them are done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub batch: Vec<CallId>,
    /// They only read: none waits for the one before it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_together: bool,
    /// Holds one of the `maxParallelItems` places.
    pub placed: bool,
    /// Since when it waits for a place again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<i64>,
    /// Calls from this number on belong to this begin of the item.
    pub first: i64,
    /// What the next prompt must tell besides the loop.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The system prompt of its steps, or a reference to it, once a person was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<Value>,
    /// The same of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<Value>,
    /// The reply had an `updatedPlan` besides its calls: it takes effect when they are done.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub patches: bool,
}

pub(super) fn is_zero(n: &u32) -> bool {
    *n == 0
}

fn is_nothing(n: &u64) -> bool {
    *n == 0
}

/// A turn of an item's loop; the calls' results stand in their own rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Turn {
    pub item: ItemId,
    #[serde(flatten)]
    pub said: Said,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "lowercase")]
pub(super) enum Said {
    /// What the model wrote and called.
    Model {
        text: Value,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<CallId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replay: Option<Value>,
    },
    /// What we told it.
    Engine { text: String },
    /// How it wants to change the rest of the plan, and the planVersion that it had seen.
    Patch { shown: i64, patch: PlanPatchDraft },
}

/// A tool call and its number.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub ord: i64,
    pub record: CallRecord,
}

impl Active {
    /// A pause, or a question about the budget, holds back whatever has not begun.
    pub fn is_held(&self) -> bool {
        self.pause.is_some() || self.asked.is_some()
    }
}

impl State {
    pub(super) fn active_run(&self) -> &Run {
        self.run.as_ref().expect("only asked for while a run is active")
    }

    pub(super) fn settings(&self) -> &RunSettings {
        &self.active_run().settings
    }

    pub(super) fn item(&self, id: &ItemId) -> Option<&Item> {
        self.list.get(id)
    }

    pub(super) fn call_status(&self, id: &CallId) -> Option<CallStatus> {
        self.calls.get(id).map(|call| call.record.status)
    }

    pub(super) fn suspension(&self, id: &SuspensionId) -> Option<&Suspension> {
        self.suspensions.values().find(|open| open.suspension_id == *id)
    }

    /// The calls of an item that have been made since it was begun the last time.
    pub(super) fn calls_of<'a>(&'a self, item: &'a Item) -> impl Iterator<Item = &'a CallRecord> {
        let first = item.progress.work.as_ref().map_or(0, |work| work.first);
        item.calls.iter().filter_map(|id| self.calls.get(id)).filter(move |call| call.ord >= first).map(|c| &c.record)
    }

    /// Whether any call of the item's open batch is in one of these states.
    pub(super) fn batch_has(&self, work: &ItemLoop, status: CallStatus) -> bool {
        work.batch.iter().any(|id| self.call_status(id) == Some(status))
    }

    /// Whether the item has a slot that is `Ready` or `Running`; one that waits for an agent has none.
    pub(super) fn is_busy(&self, work: &ItemLoop) -> bool {
        let is_sending = work.batch.iter().any(|call| self.sending(call).is_some());
        let has = |status| self.batch_has(work, status);
        work.model.is_some() || has(CallStatus::Ready) || has(CallStatus::Running) || is_sending
    }
}
