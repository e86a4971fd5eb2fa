//! A todo item: what it is, how it goes, and what happened in it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::Millis;
use crate::domain::ids::{CallId, ItemId, RunId};
use crate::domain::plan::{ItemStatus, StepType, ToolValidationMode, ValidationStatus};
use crate::domain::tool::CallRecord;
use crate::parse::PlanPatchDraft;
use crate::pes::state::model_call::ModelCall;

/// A todo item: what it is, how it goes, and what happened in it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
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
    /// The planVersion that it came with.
    pub since: i64,
    /// The planVersion of a person's last edit of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited: Option<i64>,
}

/// How an item goes: written with every transition of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Progress {
    pub status: ItemStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The result, or a reference to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// How the result begins, where that is a reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excerpt: Option<String>,
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
    /// What it depends on and was done again after it began: its result rests on what that came to before.
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
    /// Model calls so far; enforcement and repair do not count.
    pub iteration: u32,
    #[serde(skip_serializing_if = "super::model_call::is_zero")]
    pub enforced: u32,
    #[serde(skip_serializing_if = "super::model_call::is_zero")]
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
    /// Notes for the next prompt, besides the loop.
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

/// A turn of an item's loop; the calls' results stand in their own rows.
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
    /// A message of the engine to the model: an enforcement, a repair, a person's decision.
    Engine { text: String },
    /// How it wants to change the rest of the plan, and the planVersion that it had seen.
    Patch { shown: i64, patch: PlanPatchDraft },
}

/// A tool call and its number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub ord: i64,
    pub record: CallRecord,
}
