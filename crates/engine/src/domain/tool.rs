//! Tools: their declarations, their calls, their results.

mod call_code;
mod error;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::hitl::{FeedbackSchema, Reply, RiskLevel};
use super::ids::{CallId, ItemId, RunId, SuspensionId, ThreadId};
use super::policy::Ruling;
use super::settings::RunSettings;
use super::task::Delegation;
use super::{Millis, words};

pub use call_code::CallCode;
pub use error::ToolError;

/// The definition of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    pub input_schema: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    pub class: ToolClass,
    /// Declares that repeating a call under the same key has its effect only once, so it may be repeated after a crash.
    pub idempotent: bool,
    /// How long one execution may take.
    pub timeout_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk_level: Option<RiskLevel>,
}

words! {
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    pub enum ToolClass {
        Read = "read",
        Write = "write",
        External = "external",
        Irreversible = "irreversible",
    }
}

impl ToolClass {
    /// Whether its effect leaves this server or cannot be undone.
    pub fn reaches_out(self) -> bool {
        match self {
            ToolClass::External | ToolClass::Irreversible => true,
            ToolClass::Read | ToolClass::Write => false,
        }
    }
}

/// A tool of the caller's own program, declared for one run: its calls are sent to the caller, whose answer is the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientTool {
    pub name: String,
    #[serde(default)]
    pub description: String,
    /// JSON Schema of the arguments.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub input_schema: Value,
}

impl ClientTool {
    /// The tool as the model sees it.
    pub fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.clone(),
            description: self.description.clone(),
            input_schema: self.input_schema.clone(),
            output_schema: None,
            class: ToolClass::External,
            idempotent: false,
            timeout_ms: 0,
            risk_level: None,
        }
    }
}

/// A call that the agent decided on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    pub call_id: CallId,
    pub tool_name: String,
    pub arguments: Value,
    /// Members that this version does not know: they are passed on unchanged.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(ignore))]
    pub other: Map<String, Value>,
}

impl ToolCall {
    pub fn new(call_id: CallId, tool_name: String, arguments: Value) -> Self {
        Self { call_id, tool_name, arguments, other: Map::new() }
    }
}

words! {
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    pub enum ToolStatus {
        Success = "success",
        Error = "error",
        Skipped = "skipped",
    }
}

/// The result of a call; exactly one per call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    pub call_id: CallId,
    pub tool_name: String,
    pub status: ToolStatus,
    // A tool may have returned `null`; one that failed has no output.
    #[serde(default, deserialize_with = "crate::domain::present", skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
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
    pub at: Millis,
}

/// The outcome of an execution.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutcome {
    pub result: Result<Value, ToolError>,
    pub metadata: Option<Value>,
    /// A merge patch of the thread's application state, committed with the result.
    pub state_patch: Option<Value>,
    pub duration_ms: i64,
    /// For an approved call, if its tool was called.
    pub executed: Option<Executed>,
}

impl ToolOutcome {
    pub fn failed(error: ToolError) -> Self {
        Self { result: Err(error), metadata: None, state_patch: None, duration_ms: 0, executed: None }
    }
}

/// A call to be judged.
#[derive(Clone, Copy, Debug)]
pub struct Proposal<'a> {
    pub thread: &'a ThreadId,
    pub settings: &'a RunSettings,
    pub tool: &'a str,
    pub arguments: &'a Value,
}

/// What policy and schema decide about a call before it may start, and by which rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    pub verdict: Verdict,
    /// `None`: the policy was not consulted, because there is no such tool or the arguments are wrong.
    pub ruling: Option<Ruling>,
}

impl From<Verdict> for Judgement {
    fn from(verdict: Verdict) -> Self {
        Self { verdict, ruling: None }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It may run now.
    Run { class: ToolClass, idempotent: bool },
    /// A person must approve it first.
    Ask {
        class: ToolClass,
        idempotent: bool,
        message: String,
        schema: FeedbackSchema,
        risk: Option<RiskLevel>,
        /// Once approved, it is delegated to another agent.
        delegates: bool,
    },
    /// It is delegated to another agent, whose output is the result.
    Delegate,
    /// A person's answer is the result.
    Input { message: String, schema: FeedbackSchema },
    /// It is sent to the caller's own program, whose answer is the result.
    Client,
    /// It becomes an error result and does not start.
    Refuse(ToolError),
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
    Ready,
    Running,
    Parked,
    /// Another agent works on it; its task has the status.
    #[serde(rename = "atPeer")]
    AtPeer,
    Done,
}

/// The epoch of a call that was copied from another thread, under whose lease it was started.
pub const COPIED: i64 = 0;

/// A tool call as it is stored (row kind `call`) and as `GET /threads/{id}/tool-calls/{callId}` shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CallRecord {
    pub call_id: CallId,
    pub tool_name: String,
    /// What the model asked for; may be a payload reference in storage.
    pub arguments: Value,
    /// The arguments as a person edited them: the call runs with these instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_arguments: Option<Value>,
    /// The names of those who edited them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edited_by: Vec<String>,
    pub run_id: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_id: Option<ItemId>,
    pub iteration: u32,
    pub attempt: u32,
    pub status: CallStatus,
    /// The provider's own id of the call, sent back to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_call_id: Option<String>,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ToolResult>,
    pub created_at: Millis,
    pub updated_at: Millis,
}

/// An idempotent call whose attempts failed and which is retried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Retrying {
    pub failures: u32,
    /// When the first of them failed.
    pub since: Millis,
    pub not_before: Millis,
}

/// A question of a running call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PendingQuestion {
    /// Its number among the questions of the attempt, from 1.
    pub number: u32,
    pub suspension_id: SuspensionId,
    /// The reply to the call; absent while the question is open. May hold a payload reference in storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<Reply>,
    /// The running code has the reply.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_told: bool,
}
