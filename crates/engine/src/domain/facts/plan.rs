//! Facts about the plan and its items.
//!
//! Records hold changes only; readers get whole lists, which `history::fold` restores. So `PLAN` and `PLAN_UPDATE` have
//! one shape as they are recorded ([`PlanBody`], [`PlanUpdateBody`]) and one as they are read ([`WholePlan`],
//! [`WholePlanUpdate`]).

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::domain::Millis;
use crate::domain::ids::{ItemId, RunId};
use crate::domain::plan::{ItemStatus, StepOutputEntry, TodoItem, TodoItemChange, TodoListChanges, ValidationStatus};
use crate::domain::tool::{ToolCall, ToolResult};

/// Who changed the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum PlanSource {
    /// The model, in the first plan of a run.
    Planner,
    /// The model, in a plan for a further query or after a failure.
    Refinement,
    /// An item's step.
    Agent,
    /// A person.
    User,
}

/// `PLAN` as it is recorded: the changes that it makes, or a whole list at the beginning of a history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanBody {
    /// The text.
    pub plan: Value,
    /// The version that the plan has now.
    pub plan_version: i64,
    /// The reply of the model.
    pub raw_output: Value,
    /// Absent: `todoList` has the whole list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<TodoItemChange>>,
    /// The whole list in execution order, at the beginning of a history; else absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub todo_list: Option<Vec<TodoItem>>,
    /// The results of the settled items of a whole list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_outputs: Option<IndexMap<ItemId, StepOutputEntry>>,
}

/// `PLAN_UPDATE` as it is recorded. Without `changes` it names the source of the changes in the `PLAN` before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanUpdateBody {
    /// The version that the plan has now.
    pub plan_version: i64,
    /// Who changed it.
    pub source: PlanSource,
    /// Absent: the changes are those of the `PLAN` just before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<TodoItemChange>>,
    /// The items in their new order, if that changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Vec<ItemId>>,
    /// The text, if that changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Value>,
}

/// `PLAN`: the plan, as clients read it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WholePlan {
    /// The text, for people and for the next prompt.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub plan: Value,
    /// Moves with the plan, not with the status of its items.
    pub plan_version: i64,
    /// In execution order.
    pub todo_list: Vec<TodoItem>,
    /// The results of its settled items, if the plan is recorded as a whole in place of another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<std::collections::BTreeMap<String, StepOutputEntry>>))]
    pub step_outputs: Option<IndexMap<ItemId, StepOutputEntry>>,
    /// The reply of the model.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub raw_output: Value,
}

/// `PLAN_UPDATE`: the changes of the plan, as clients read them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WholePlanUpdate {
    /// The version that the plan has now.
    pub plan_version: i64,
    /// Who changed it.
    pub source: PlanSource,
    /// Present if the text changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub plan: Option<Value>,
    /// In execution order.
    pub todo_list: Vec<TodoItem>,
    /// What differs from the version before.
    pub changes: TodoListChanges,
}

/// `ITEM_STATUS_CHANGE`: an item begins, waits or ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ItemStatusChangeBody {
    /// The item that changed.
    pub item_id: ItemId,
    /// The status before.
    pub from: ItemStatus,
    /// The status now.
    pub status: ItemStatus,
    /// How often the item has begun, from 1.
    pub attempt: u32,
    /// Why it failed, was cancelled or begins again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Only of a settled item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_output: Option<StepOutputEntry>,
    /// The members of the item that changed with its status.
    pub item: ItemMembers,
}

/// The members of an item that a change of its status sets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ItemMembers {
    /// The status now.
    pub status: ItemStatus,
    /// In Unix milliseconds.
    pub updated_timestamp: Millis,
    /// The run that works on it or ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// Why it failed or was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Present if the item is settled and has a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// The calls that its model asked for; empty until it is settled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The calls that started, with the arguments that ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actual_tool_calls: Vec<ToolCall>,
    /// The results of its calls; empty until it is settled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_results: Vec<ToolResult>,
    /// Whether it called each of its required tools; absent without such tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation_status: Option<ValidationStatus>,
    /// Members that this version does not know: they are passed on unchanged.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(ignore))]
    pub other: Map<String, Value>,
}
