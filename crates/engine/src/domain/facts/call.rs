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
    /// As the model wrote them, in its order.
    pub tool_calls: Vec<ToolCall>,
}

/// `AGENT_RESUMED`: a question was answered or withdrawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AgentResumedBody {
    /// The question that is over.
    pub suspension_id: SuspensionId,
    /// How it ended.
    pub decision: Decision,
    /// The name of the key or person, or of the part of the server that ended it.
    pub decided_by: String,
    /// The call that was asked about, or that asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    /// The tool of that call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// The digest of the tool and the arguments as they were approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The words of the person; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `SUSPENSION_TIMEOUT`: nobody answered in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SuspensionTimeoutBody {
    /// The question whose time is over.
    pub suspension_id: SuspensionId,
    /// After `remind` the question stays open.
    pub policy: ExpiryPolicy,
}

/// `A2A_TASK`: the state of a task that another agent works on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct A2aTaskBody {
    /// Ours; the agent has another.
    pub task_id: TaskId,
    /// The id under which the agent is registered here.
    pub agent_id: String,
    /// What kind of work it is, in the words of the model; empty if it gave none.
    pub task_type: String,
    /// The call whose result it becomes.
    pub call_id: CallId,
    /// As this server sees it: a terminal one is final.
    pub status: TaskStatus,
    /// When the task was made, in Unix milliseconds.
    pub submitted_at: Millis,
    /// When its call fails with `timeout` unless the agent has ended it, in Unix milliseconds.
    pub deadline: Millis,
    /// The agent's own id of it; absent until the agent reported one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_task_id: Option<String>,
    /// The conversation that the agent puts it in; absent until the agent reported one.
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
