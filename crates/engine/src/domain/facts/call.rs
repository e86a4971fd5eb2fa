//! Facts about tool calls, questions to people, and tasks of other agents. The end of a call is recorded as its
//! [`ToolResult`](crate::domain::tool::ToolResult), a question as an
//! [`AskedQuestion`](crate::domain::hitl::AskedQuestion).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::domain::Millis;
use crate::domain::hitl::{Decision, ExpiryPolicy};
use crate::domain::ids::{CallId, StreamId, SuspensionId, TaskId};
use crate::domain::task::TaskStatus;
use crate::domain::tool::ToolCall;

/// `TOOL_CALL`: the calls of a reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolCallBody {
    /// Absent: no model asked for these calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_id: Option<StreamId>,
    /// The iteration of the item's loop.
    pub iteration: u32,
    pub tool_calls: Vec<ToolCall>,
}

/// `AGENT_RESUMED`: a question was answered or withdrawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AgentResumedBody {
    pub suspension_id: SuspensionId,
    pub decision: Decision,
    pub decided_by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// The digest of the tool and the arguments as they were approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `SUSPENSION_TIMEOUT`: nobody answered in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SuspensionTimeoutBody {
    pub suspension_id: SuspensionId,
    /// After `remind` the question stays open.
    pub policy: ExpiryPolicy,
}

/// `A2A_TASK`: the state of a task that another agent works on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct A2aTaskBody {
    pub task_id: TaskId,
    pub agent_id: String,
    pub task_type: String,
    pub call_id: CallId,
    pub status: TaskStatus,
    pub submitted_at: Millis,
    pub deadline: Millis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_task_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_context_id: Option<String>,
    /// The agent's last message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Why it ended, if not by itself, or why it is not known whether the agent has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Members that this version does not know: they are passed on unchanged.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(ignore))]
    pub other: Map<String, Value>,
}
