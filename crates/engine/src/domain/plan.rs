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
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    #[derive(Default)]
    pub enum ItemStatus {
        #[default]
        Pending = "pending",
        InProgress = "in_progress",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
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

    pub fn is_settled(self) -> bool {
        match self {
            ItemStatus::Completed | ItemStatus::Failed | ItemStatus::Cancelled => true,
            ItemStatus::Pending | ItemStatus::InProgress | ItemStatus::Waiting => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum StepType {
    Tool,
    Reasoning,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum ToolValidationMode {
    Strict,
    Advisory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum ValidationStatus {
    Passed,
    Failed,
    Skipped,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TodoItem {
    pub id: ItemId,
    pub description: String,
    pub status: ItemStatus,
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
    /// May be a payload reference in storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thoughts: Vec<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actual_tool_calls: Vec<ToolCall>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_results: Vec<ToolResult>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation_status: Option<ValidationStatus>,
    pub created_timestamp: Millis,
    pub updated_timestamp: Millis,
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

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct StepOutputEntry {
    pub step_id: ItemId,
    pub description: String,
    pub step_type: StepType,
    pub status: ItemStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Millis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_result: Option<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_results: Vec<ToolResult>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Members that this version does not know: they are passed on unchanged.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(ignore))]
    pub other: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum ChangeType {
    Added,
    Modified,
    Removed,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TodoItemChange {
    #[serde(rename = "type")]
    pub kind: ChangeType,
    pub item_id: ItemId,
    pub timestamp: Millis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<TodoItem>,
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
    pub timestamp: Millis,
    pub changes: Vec<TodoItemChange>,
    pub added: Vec<TodoItemChange>,
    pub modified: Vec<TodoItemChange>,
    pub removed: Vec<TodoItemChange>,
}
