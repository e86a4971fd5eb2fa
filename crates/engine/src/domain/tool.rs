//! Tools: their declarations, their calls, their results.

mod call_code;
mod error;
mod judgement;
mod spec;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::hitl::Reply;
use super::ids::{CallId, ItemId, RunId, SuspensionId};
use super::policy::Ruling;
use super::task::Delegation;
use super::{Millis, words};

pub use call_code::CallCode;
pub use error::ToolError;
pub use judgement::{Judgement, Proposal, Verdict};
pub use spec::{ToolClass, ToolSpec};

/// A tool of the caller's own program, declared for one run: its calls are sent to the caller, whose answer is the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientTool {
    /// What a model calls it by: no name of a tool of the server.
    pub name: String,
    /// What it does, for the model.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of the arguments.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub input_schema: Value,
}

impl ClientTool {
    /// The tool as the model sees it.
    pub fn spec(&self) -> ToolSpec {
        ToolSpec::new(&self.name, &self.description, ToolClass::External, self.input_schema.clone()).with_timeout_ms(0)
    }
}

/// A call that the agent decided on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// Names the call everywhere in this server.
    pub call_id: CallId,
    /// The name as the model wrote it, also of a tool that does not exist.
    pub tool_name: String,
    /// An object, unless the model wrote something else.
    pub arguments: Value,
    /// Members that this version does not know: they are passed on unchanged.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(ignore))]
    pub other: Map<String, Value>,
}

impl ToolCall {
    /// A call without members of other versions.
    pub fn new(call_id: CallId, tool_name: String, arguments: Value) -> Self {
        Self { call_id, tool_name, arguments, other: Map::new() }
    }
}

words! {
    /// How a tool call ended, for the model.
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    pub enum ToolStatus {
        /// It has an output.
        Success = "success",
        /// It has an error.
        Error = "error",
        /// It was not made.
        Skipped = "skipped",
    }
}

/// The result of a call; exactly one per call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// The call that it ends.
    pub call_id: CallId,
    /// The name as the model wrote it.
    pub tool_name: String,
    /// Says whether there is an output or an error.
    pub status: ToolStatus,
    // A tool may have returned `null`; one that failed has no output.
    /// What the tool returned; may be a payload reference in storage.
    #[serde(default, deserialize_with = "crate::domain::present", skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Why the call failed or was not made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    /// What the tool said besides its output, such as `{"sources": […]}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// How long its last attempt ran, in milliseconds; 0: it was not made.
    pub duration_ms: i64,
    /// For an approved call: the arguments that its tool was called with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executed: Option<Executed>,
    /// Members that this version does not know: they are passed on unchanged.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(ignore))]
    pub other: Map<String, Value>,
}

/// What a tool was called with, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Executed {
    /// The digest of the tool and the arguments that it was given.
    pub digest: String,
    /// When its tool was called, in Unix milliseconds.
    pub at: Millis,
}

/// The outcome of an execution.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutcome {
    /// What the tool returned, or why it failed.
    pub result: Result<Value, ToolError>,
    /// What it said besides, such as `{"sources": […]}`.
    pub metadata: Option<Value>,
    /// A merge patch of the thread's application state, committed with the result.
    pub state_patch: Option<Value>,
    /// How long it ran, in milliseconds.
    pub duration_ms: i64,
    /// For an approved call, if its tool was called.
    pub executed: Option<Executed>,
}

impl ToolOutcome {
    /// A failure that took no time and changed no state.
    pub fn failed(error: ToolError) -> Self {
        Self { result: Err(error), metadata: None, state_patch: None, duration_ms: 0, executed: None }
    }
}

impl Verdict {
    /// What the call may do to the world, if that was judged.
    pub fn class(&self) -> Option<ToolClass> {
        match self {
            Verdict::Run { class, .. } | Verdict::Ask { class, .. } => Some(*class),
            Verdict::Input { .. } | Verdict::Client | Verdict::Delegate | Verdict::Refuse(_) => None,
        }
    }

    /// Whether the call may be repeated after a crash, under the same key.
    pub fn is_idempotent(&self) -> bool {
        match self {
            Verdict::Run { idempotent, .. } | Verdict::Ask { idempotent, .. } => *idempotent,
            Verdict::Input { .. } | Verdict::Client | Verdict::Delegate | Verdict::Refuse(_) => false,
        }
    }
}

/// The status of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum CallStatus {
    /// It runs as soon as it may: its turn, a time or a pause holds it back.
    Ready,
    /// It was started by the holder of the thread's lease and has not returned.
    Running,
    /// A person is asked about it.
    Parked,
    /// Another agent works on it; its task has the status.
    #[serde(rename = "atPeer")]
    AtPeer,
    /// It has its result.
    Done,
}

/// The epoch of a call that was copied from another thread, under whose lease it was started.
pub const COPIED: i64 = 0;

/// A tool call as it is stored (row kind `call`) and as `GET /threads/{id}/tool-calls/{callId}` shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CallRecord {
    /// Names the call everywhere in this server.
    pub call_id: CallId,
    /// The name as the model wrote it.
    pub tool_name: String,
    /// What the model asked for; may be a payload reference in storage.
    pub arguments: Value,
    /// The arguments as a person edited them: the call runs with these instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_arguments: Option<Value>,
    /// The names of those who edited them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edited_by: Vec<String>,
    /// The run in which the model asked for it.
    pub run_id: RunId,
    /// The todo item whose step asked for it; absent: none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_id: Option<ItemId>,
    /// Which model call of the item asked for it, from 1.
    pub iteration: u32,
    /// Which attempt of the call this is, from 1; an answer to an earlier one changes nothing.
    pub attempt: u32,
    /// What it waits for, if anything.
    pub status: CallStatus,
    /// The provider's own id of the call, sent back to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_call_id: Option<String>,
    /// Whether repeating it has its effect only once: then it is repeated after a crash.
    pub idempotent: bool,
    /// The effect that it may have, as its tool declared for these arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ToolClass>,
    /// What was decided about it, and by which rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Ruling>,
    /// The digest of the tool and the arguments that a person is asked about, or approved; nothing else runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The agent that it goes to instead of running here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegation: Option<Delegation>,
    /// The lease epoch under which it was started; 0: that of another thread, from which it was copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<i64>,
    /// Its failed attempts, and when the next one is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retrying: Option<Retrying>,
    /// Why an attempt of it may have had its effect: the first reason. A call that then fails is in doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    /// Its last question to a person, while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<PendingQuestion>,
    /// Present once it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ToolResult>,
    /// When the model asked for it, in Unix milliseconds.
    pub created_at: Millis,
    /// When anything of it changed last, in Unix milliseconds.
    pub updated_at: Millis,
}

/// An idempotent call whose attempts failed and which is retried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Retrying {
    /// How many of its attempts failed one after the other.
    pub failures: u32,
    /// When the first of them failed.
    pub since: Millis,
    /// No attempt is made before this time, in Unix milliseconds.
    pub not_before: Millis,
}

/// A question of a running call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PendingQuestion {
    /// Its number among the questions of the attempt, from 1.
    pub number: u32,
    /// The question as people see it.
    pub suspension_id: SuspensionId,
    /// The reply to the call; absent while the question is open. May hold a payload reference in storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<Reply>,
    /// The running code has the reply.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_told: bool,
}
