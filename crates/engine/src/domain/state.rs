//! `PESAgentStateData`: the state of an agent, as `GET /threads/{id}/state` returns it. The engine's view and the fold
//! of the log both have this shape; tests parse both as this type.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Millis;
use super::facts::A2aTaskBody;
use super::hitl::{AskedQuestion, SuspensionStatus};
use super::ids::{CallId, ItemId, RunId, TaskId, ThreadId};
use super::plan::{StepOutputEntry, TodoItem};
use super::thread::ThreadStatus;
use super::tool::{ToolCall, ToolResult};

/// A thread's state as `GET /threads/{id}/state` shows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PESAgentStateData {
    /// The thread whose state it is.
    pub thread_id: ThreadId,
    /// What the user wants, as the planner understood it; empty without a plan.
    pub intent: String,
    /// The title of the plan. The thread may have another one.
    pub title: String,
    /// The text of the plan; empty without one.
    pub plan: String,
    /// In execution order.
    pub todo_list: Vec<TodoItem>,
    /// The first item that is in progress or waiting.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub current_step_id: Option<ItemId>,
    /// Whether any question is open.
    pub is_paused: bool,
    /// By the item's id.
    pub step_outputs: BTreeMap<String, StepOutputEntry>,
    /// The oldest of `suspensions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspension: Option<OpenSuspension>,
    /// All open questions, the oldest first.
    pub suspensions: Vec<OpenSuspension>,
    /// The tasks that other agents work on.
    pub a2a_waits: Vec<A2aWait>,
    /// The tasks of the item that has waited longest.
    #[serde(default, rename = "pendingA2ATasks", skip_serializing_if = "Option::is_none")]
    pub pending_a2a_tasks: Option<PendingA2ATasks>,
    /// Moves with the plan, not with the status of its items: the ETag of the plan.
    pub plan_version: i64,
    /// The seq of the newest observation that the state includes.
    pub last_seq: i64,
    /// The seq of the oldest observation that is kept.
    pub min_seq: i64,
    /// That of the active run, if there is one.
    pub status: ThreadStatus,
    /// The active run.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub run_id: Option<RunId>,
    /// Absent in a state of the past.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<AgentPhase>,
}

/// What the active run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum AgentPhase {
    /// There is no active run.
    Idle,
    /// It makes the first plan.
    Planning,
    /// It changes a plan.
    Refining,
    /// It works on todo items.
    Executing,
    /// It writes the answer.
    Synthesizing,
}

/// An open question, and the work that it interrupted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OpenSuspension {
    /// As it was announced.
    #[serde(flatten)]
    pub question: AskedQuestion,
    /// The run that waits.
    pub run_id: RunId,
    /// The thread whose run waits.
    pub thread_id: ThreadId,
    /// When it was asked, in Unix milliseconds.
    pub created_at: Millis,
    /// Always `pending`.
    pub status: SuspensionStatus,
    /// How long it stays open; with the policy `remind`, also the interval at which it is asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_after_ms: Option<Millis>,
    /// The todo item whose work waits; absent: the whole run is asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_id: Option<ItemId>,
    /// The call that is asked about, or that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<ToolCall>,
    /// The messages of the item's loop so far; absent in a state of the past.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration_state: Option<Vec<IterationMessage>>,
    /// The results of the other calls of the same reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial_tool_results: Option<Vec<ToolResult>>,
}

/// One message of an item's loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct IterationMessage {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// The text, or what a tool returned.
    pub content: Value,
    /// The tool, in a message of the role `tool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the model called, in a message of the role `assistant`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<ToolCall>>,
    /// The call that a message of the role `tool` answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<CallId>,
}

/// A delegated task that has not ended, as in `A2A_TASK`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct A2aWait {
    /// Its last announcement.
    #[serde(flatten)]
    pub task: A2aTaskBody,
    /// The todo item that waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_id: Option<ItemId>,
}

/// The tasks that one item waits for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PendingA2ATasks {
    /// Ours; the agents have others.
    pub task_ids: Vec<TaskId>,
    /// When the oldest of them was delegated, in Unix milliseconds.
    pub submitted_at: Millis,
    /// The todo item that waits for them.
    #[cfg_attr(feature = "schema", schema(value_type = ItemId))]
    pub item_id: Option<ItemId>,
}

impl PendingA2ATasks {
    /// The tasks of the item that has waited longest; `waits` must be sorted by age.
    pub fn of(waits: &[A2aWait]) -> Option<Self> {
        let oldest = waits.first()?;
        let of_item = waits.iter().filter(|wait| wait.item_id == oldest.item_id);
        let task_ids = of_item.map(|wait| wait.task.task_id.clone()).collect();
        Some(Self { task_ids, submitted_at: oldest.task.submitted_at, item_id: oldest.item_id.clone() })
    }
}
