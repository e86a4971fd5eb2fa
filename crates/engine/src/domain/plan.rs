//! The persisted todo list as clients see it, and what changed in it.

mod item_code;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ids::{ItemId, RunId};
use super::tool::{ToolCall, ToolResult};
use super::{Millis, words};

pub use item_code::ItemCode;

/// Members of an item that the server fills in; a client that sends back what it read may leave them in.
pub const FILLED: [&str; 11] = [
    "result",
    "thoughts",
    "toolCalls",
    "actualToolCalls",
    "toolResults",
    "validationStatus",
    "createdTimestamp",
    "updatedTimestamp",
    "runId",
    "reason",
    "redone",
];

words! {
    /// How far a todo item is.
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    #[derive(Default)]
    pub enum ItemStatus {
        /// It waits for its dependencies or for its turn.
        #[default]
        Pending = "pending",
        /// Its model or its tools are at work, or a person is asked.
        InProgress = "in_progress",
        /// It has a result.
        Completed = "completed",
        /// It ended without a result; `reason` says why.
        Failed = "failed",
        /// It was skipped, removed, or ended because something else ended.
        Cancelled = "cancelled",
        /// It waits for other agents only.
        Waiting = "waiting",
    }
}

impl ItemStatus {
    /// The status as people and models read it.
    pub fn word(self) -> &'static str {
        match self {
            ItemStatus::Pending => "pending",
            ItemStatus::InProgress => "in progress",
            ItemStatus::Completed => "completed",
            ItemStatus::Failed => "failed",
            ItemStatus::Cancelled => "cancelled",
            ItemStatus::Waiting => "waiting",
        }
    }

    /// Whether it has ended.
    pub fn is_settled(self) -> bool {
        match self {
            ItemStatus::Completed | ItemStatus::Failed | ItemStatus::Cancelled => true,
            ItemStatus::Pending | ItemStatus::InProgress | ItemStatus::Waiting => false,
        }
    }
}

/// Whether an item needs tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum StepType {
    /// Its step is offered tools.
    Tool,
    /// Its step is offered no tools.
    Reasoning,
}

/// What happens to an item that ends without a call of each of its required tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum ToolValidationMode {
    /// Its model is told to call them, and it fails if it does not.
    Strict,
    /// It completes, with the validation `failed`.
    Advisory,
}

/// Whether an item called each of its required tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum ValidationStatus {
    /// It did.
    Passed,
    /// It did not, and that is advisory.
    Failed,
    /// Not written by this release.
    Skipped,
}

/// A step of the plan, with what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TodoItem {
    /// Unique in its plan, as the planner wrote it.
    pub id: ItemId,
    /// The task, in the planner's words.
    pub description: String,
    /// How far it is.
    pub status: ItemStatus,
    /// The items that must end before it begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<ItemId>,
    /// Absent: the planner did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_type: Option<StepType>,
    /// The tools that it must have called successfully to be complete; no globs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_tools: Vec<String>,
    /// What its result should be, in the planner's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_outcome: Option<String>,
    /// What happens if a required tool was not called; absent: `strict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_validation_mode: Option<ToolValidationMode>,
    /// May be a payload reference in storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Not written by this release: the observations `THOUGHTS` have them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thoughts: Vec<Value>,
    /// The calls that its model asked for, with the arguments as the model wrote them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The calls that started, with the arguments that ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actual_tool_calls: Vec<ToolCall>,
    /// The results of its calls that have one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_results: Vec<ToolResult>,
    /// Whether it called each of its required tools; absent until it is complete, and without such tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation_status: Option<ValidationStatus>,
    /// In Unix milliseconds.
    pub created_timestamp: Millis,
    /// When anything of it changed last, in Unix milliseconds.
    pub updated_timestamp: Millis,
    /// The run that works on it or ended it; absent until one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// Why it failed or was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// It was completed before and is redone: a person is asked about its calls that are not idempotent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redone: bool,
    /// Members that this version does not know: they are passed on unchanged.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(ignore))]
    pub other: Map<String, Value>,
}

impl TodoItem {
    /// A pending item without anything else.
    pub fn new(id: ItemId, description: String, now: Millis) -> Self {
        Self {
            id,
            description,
            status: ItemStatus::Pending,
            dependencies: Vec::new(),
            step_type: None,
            required_tools: Vec::new(),
            expected_outcome: None,
            tool_validation_mode: None,
            result: None,
            thoughts: Vec::new(),
            tool_calls: Vec::new(),
            actual_tool_calls: Vec::new(),
            tool_results: Vec::new(),
            validation_status: None,
            created_timestamp: now,
            updated_timestamp: now,
            run_id: None,
            reason: None,
            redone: false,
            other: Map::new(),
        }
    }
}

/// What a settled item left for the items that depend on it and for the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct StepOutputEntry {
    /// The item's id.
    pub step_id: ItemId,
    /// The item's task.
    pub description: String,
    /// `reasoning` if the planner did not say.
    pub step_type: StepType,
    /// How it ended.
    pub status: ItemStatus,
    /// In Unix milliseconds; absent if it did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Millis>,
    /// The item's result; may be a payload reference in storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_result: Option<Value>,
    /// The results of its calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_results: Vec<ToolResult>,
    /// Not written by this release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Members that this version does not know: they are passed on unchanged.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(ignore))]
    pub other: Map<String, Value>,
}

/// What happened to an item in a change of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum ChangeType {
    /// The plan did not have it.
    Added,
    /// The plan has it with other members.
    Modified,
    /// The plan has it no more.
    Removed,
}

/// One change of one item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TodoItemChange {
    /// Says which of `item` and `previousItem` there are.
    #[serde(rename = "type")]
    pub kind: ChangeType,
    /// The item that changed.
    pub item_id: ItemId,
    /// When it changed, in Unix milliseconds.
    pub timestamp: Millis,
    /// The item after the change; absent if it was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<TodoItem>,
    /// The item before the change; absent if it was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_item: Option<TodoItem>,
    /// Members that this version does not know: they are passed on unchanged.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(ignore))]
    pub other: Map<String, Value>,
}

impl TodoItemChange {
    /// A change without the item's members.
    pub fn new(kind: ChangeType, item_id: ItemId, timestamp: Millis) -> Self {
        Self { kind, item_id, timestamp, item: None, previous_item: None, other: Map::new() }
    }
}

/// The `changes` of a `PLAN_UPDATE`: the last three members repeat `changes` by kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TodoListChanges {
    /// In Unix milliseconds, the same for all of them.
    pub timestamp: Millis,
    /// All changes, in the order in which they were made.
    pub changes: Vec<TodoItemChange>,
    /// Those of the kind `added`.
    pub added: Vec<TodoItemChange>,
    /// Those of the kind `modified`.
    pub modified: Vec<TodoItemChange>,
    /// Those of the kind `removed`.
    pub removed: Vec<TodoItemChange>,
}
