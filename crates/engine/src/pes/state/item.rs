//! A todo item: its definition, its progress, and what happened in it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::Millis;
use crate::domain::ids::{CallId, ItemId, RunId};
use crate::domain::plan::{ItemStatus, StepType, ToolValidationMode, ValidationStatus};
use crate::domain::settings::ExecutionConfig;
use crate::domain::tool::CallRecord;
use crate::parse::PlanPatchDraft;
use crate::pes::state::model_call::ModelCall;

/// A todo item.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    /// Its position in the list.
    pub ord: i64,
    pub def: Definition,
    pub progress: Progress,
    /// All calls that were made for it, in order.
    pub calls: Vec<CallId>,
    /// The turns of its loop so far; dropped when the run ends.
    pub turns: Vec<Turn>,
}

impl Item {
    /// Whether the next run may do what those shaped who asked for the item: it is not completed, or a person edited it,
    /// and it may be done again.
    pub fn may_be_done_as_shaped(&self) -> bool {
        self.progress.status != ItemStatus::Completed || self.def.edited.is_some()
    }
}

/// The definition of an item: written when the plan changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Definition {
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
    /// The planVersion in which it was added.
    pub since: i64,
    /// The planVersion of a person's last edit of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited: Option<i64>,
}

/// The progress of an item: written with every transition of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Progress {
    pub status: ItemStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The result, or a reference to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// The beginning of the result, if that is a reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excerpt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<ValidationStatus>,
    pub updated: Millis,
    /// How often it was begun.
    pub attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// It was completed and is done again: its calls may have had their effect already.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub redone: bool,
    /// Dependencies that were done again after this item began: its result is based on their earlier results.
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
pub(crate) struct ItemLoop {
    /// Model calls so far; those for enforcement and repair do not count.
    pub iteration: u32,
    #[serde(skip_serializing_if = "crate::domain::is_default", rename = "enforced")]
    pub enforcements: u32,
    #[serde(skip_serializing_if = "crate::domain::is_default", rename = "repaired")]
    pub repairs: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelCall>,
    /// The calls of the last reply, in its order, until all of them are done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub batch: Vec<CallId>,
    /// All calls of the batch only read: they run in parallel.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_together: bool,
    /// Holds one of the `maxParallelItems` permits.
    #[serde(rename = "placed")]
    pub has_permit: bool,
    /// It waits for a permit again; the number orders the waiting items.
    #[serde(skip_serializing_if = "Option::is_none", rename = "waits")]
    pub waits_since: Option<i64>,
    /// Calls from this number on belong to the current attempt of the item.
    #[serde(rename = "first")]
    pub first_ord: i64,
    /// Notes for the next prompt, besides the loop.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The system prompt of its steps, or a reference to it; stored when a person is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<Value>,
    /// The task text, stored likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<Value>,
    /// The reply had an `updatedPlan` besides its calls: it is applied when they are done.
    #[serde(skip_serializing_if = "std::ops::Not::not", rename = "patches")]
    pub has_patch: bool,
}

impl ItemLoop {
    /// How many iterations the item may take. Each enforcement adds one, so that the model sees the results of the calls
    /// that it was told to make.
    pub fn max_iterations(&self, execution: &ExecutionConfig) -> u32 {
        execution.max_iterations.max(1).saturating_add(self.enforcements)
    }
}

/// A turn of an item's loop; the results of its calls are in their own rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Turn {
    pub item: ItemId,
    #[serde(flatten)]
    pub content: TurnContent,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "lowercase")]
pub(crate) enum TurnContent {
    /// What the model wrote and called.
    Model {
        text: Value,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<CallId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replay: Option<Value>,
    },
    /// A message to the model: an enforcement, a repair, a person's decision, or what a person said beside an answer.
    Engine { text: String },
    /// How the model wants to change the rest of the plan, and the planVersion that its prompt showed.
    Patch { shown: i64, patch: PlanPatchDraft },
}

/// A tool call and its row's number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub ord: i64,
    pub record: CallRecord,
}
