//! Human in the loop: suspensions, and people's answers.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Millis;
#[cfg(feature = "schema")]
use super::forecast::PlanForecast;
pub use super::form::{FeedbackSchema, InputType, SelectOption};
use super::ids::{CallId, ItemId, RunId, SuspensionId, TaskId, ThreadId};
use super::policy::Ruling;
use super::tool::ToolClass;
use super::words;

words! {
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    pub enum SuspensionKind {
        Approval = "approval",
        Input = "input",
        InDoubt = "in_doubt",
        ClientTool = "client_tool",
        Budget = "budget",
        PeerInput = "peer_input",
        PeerAuth = "peer_auth",
        PlanReview = "plan_review",
        Pause = "pause",
    }
}

impl SuspensionKind {
    /// Whether the call that waits for the answer was not sent to anybody. One that asks while it runs was.
    pub fn holds_call_back(self) -> bool {
        match self {
            Self::Approval | Self::Input => true,
            Self::InDoubt
            | Self::ClientTool
            | Self::Budget
            | Self::PeerInput
            | Self::PeerAuth
            | Self::PlanReview
            | Self::Pause => false,
        }
    }

    /// Whether an answer may let a call run. Other questions are about a call that runs already, or about none.
    pub fn may_let_run(self) -> bool {
        match self {
            Self::Approval | Self::InDoubt | Self::PlanReview => true,
            Self::Input | Self::ClientTool | Self::Budget | Self::PeerInput | Self::PeerAuth | Self::Pause => false,
        }
    }

    /// Whether the answer is a value that fits the question's form, and no decision.
    pub fn asks_for_a_value(self) -> bool {
        match self {
            SuspensionKind::Input
            | SuspensionKind::ClientTool
            | SuspensionKind::PeerInput
            | SuspensionKind::PeerAuth => true,
            SuspensionKind::Approval
            | SuspensionKind::InDoubt
            | SuspensionKind::Budget
            | SuspensionKind::PlanReview
            | SuspensionKind::Pause => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum RiskLevel {
    Low,
    Medium,
    High,
    Critical,
}

words! {
    /// What happens when nobody answers in time.
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    pub enum ExpiryPolicy {
        Deny = "deny",
        Fail = "fail",
        Remind = "remind",
    }
}

words! {
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    pub enum SuspensionStatus {
        Pending = "pending",
        Resolved = "resolved",
        Expired = "expired",
        Cancelled = "cancelled",
    }
}

/// A question to a person, as the inbox lists it and `AGENT_SUSPENDED` announced it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Suspension {
    pub suspension_id: SuspensionId,
    pub thread_id: ThreadId,
    pub run_id: RunId,
    pub kind: SuspensionKind,
    pub status: SuspensionStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_id: Option<ItemId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// The exact arguments; may be a payload reference in storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_input: Option<Value>,
    /// The effect that the call may have, as far as its tool declares it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ToolClass>,
    /// Whether repeating the call has its effect only once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// JSON Schema of the arguments; may be a payload reference in storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub input_schema: Option<Value>,
    /// For a plan review, the plan that is to run, with what it may do; may be a payload reference in storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<PlanForecast>))]
    pub plan: Option<Value>,
    pub message: String,
    pub feedback_schema: FeedbackSchema,
    /// The call asked while it runs: it keeps running, and gets the answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub while_running: bool,
    /// SHA-256, hex, of the canonical JSON of tool and arguments, or of `plan`: what an approval is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk_level: Option<RiskLevel>,
    /// The agent that asks about a call or a plan of its own. Tool, arguments, plan, digest and risk are the agent's, and
    /// the answer is sent to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteAsker>,
    /// The rule that made it a question, and who may answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Ruling>,
    pub created_at: Millis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Millis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiry_policy: Option<ExpiryPolicy>,
    /// How long it stays open; with the policy `remind`, also the interval at which it is asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_after_ms: Option<Millis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
}

/// `AGENT_SUSPENDED`: a question as it is put to people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AskedQuestion {
    pub suspension_id: SuspensionId,
    pub kind: SuspensionKind,
    pub message: String,
    pub feedback_schema: FeedbackSchema,
    /// The call asked while it runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub while_running: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// The exact arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_input: Option<Value>,
    /// The effect that the call may have, as far as its tool declares it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ToolClass>,
    /// Whether repeating the call has its effect only once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// JSON Schema of the arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub input_schema: Option<Value>,
    /// For a plan review, the plan that is to run, with what it may do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<PlanForecast>))]
    pub plan: Option<Value>,
    /// SHA-256, hex, of the canonical JSON of tool and arguments, or of `plan`: what an approval is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk_level: Option<RiskLevel>,
    /// The agent that asks about a call or a plan of its own. Tool, arguments, plan, digest and risk are the agent's, and
    /// the answer is sent to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteAsker>,
    /// The rule that made it a question, and who may answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Ruling>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Millis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiry_policy: Option<ExpiryPolicy>,
    /// Members that this version does not know: they are passed on unchanged.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(ignore))]
    pub other: Map<String, Value>,
}

/// Another agent that asks about a call or a plan of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RemoteAsker {
    pub agent_id: String,
    /// The task that the agent works on.
    pub task_id: TaskId,
    /// The call that delegated the task, and waits for it.
    pub call_id: CallId,
    /// When the question expires at the agent, as it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Millis>,
}

impl Suspension {
    /// The call that waits for the answer. A question of an agent about a call of its own names the delegated call only
    /// here: that call is not what is decided.
    pub fn waiting_call(&self) -> Option<&CallId> {
        self.call_id.as_ref().or_else(|| Some(&self.remote.as_ref()?.call_id))
    }

    /// The body of its `AGENT_SUSPENDED`.
    pub fn asked(&self) -> AskedQuestion {
        AskedQuestion {
            suspension_id: self.suspension_id.clone(),
            kind: self.kind,
            message: self.message.clone(),
            feedback_schema: self.feedback_schema.clone(),
            while_running: self.while_running,
            call_id: self.call_id.clone(),
            tool_name: self.tool_name.clone(),
            tool_input: self.tool_input.clone(),
            class: self.class,
            idempotent: self.idempotent,
            input_schema: self.input_schema.clone(),
            plan: self.plan.clone(),
            digest: self.digest.clone(),
            risk_level: self.risk_level,
            remote: self.remote.clone(),
            policy: self.policy.clone(),
            expires_at: self.expires_at,
            expiry_policy: self.expiry_policy,
            other: Map::new(),
        }
    }
}

/// A question of a tool to a person.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    pub message: String,
    pub form: FeedbackSchema,
}

/// The reply to a call that asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "action", rename_all = "lowercase")]
pub enum Reply {
    /// A person answered; the value fits the question's form.
    Accepted { value: Value },
    /// A person refused to answer.
    Declined,
    /// Nobody answered in time, or there is nobody to ask.
    Cancelled,
}

/// How a suspension ended: who, when, what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Resolution {
    pub decision: Decision,
    pub decided_by: String,
    pub decided_at: Millis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The digest of the tool and the arguments as they were approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

words! {
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    pub enum Decision {
        Approved = "approved",
        Modified = "modified",
        Rejected = "rejected",
        Answered = "answered",
        Retry = "retry",
        Done = "done",
        Skip = "skip",
        Abort = "abort",
        Resumed = "resumed",
        Expired = "expired",
        Cancelled = "cancelled",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum InDoubtAction {
    Retry,
    Done,
    Skip,
    Abort,
}

/// The body of `POST /threads/{id}/resume`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "schema", schema(as = ResumeRequest))]
pub struct Answer {
    pub suspension_id: SuspensionId,
    /// The suspension's `digest` as the person saw it; if given, it must still be the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// What is approved instead: the arguments of a call, or `{"todoList": [...]}`, the whole list, for a plan review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub modified_args: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<InDoubtAction>,
}

impl Answer {
    /// Whether this answer to a question of this kind lets a call run, which four eyes forbid to those who shaped it.
    pub fn lets_run(&self, kind: SuspensionKind) -> bool {
        kind.may_let_run() && (self.approved == Some(true) || self.action == Some(InDoubtAction::Retry))
    }
}
