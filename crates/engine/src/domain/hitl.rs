//! Human in the loop: suspensions, and people's answers.

mod answer;

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

pub use answer::{Answer, Decision, InDoubtAction, Resolution};

words! {
    /// Why a person is asked; the kind decides which answers are taken (docs/POLICY.md).
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    pub enum SuspensionKind {
        /// May this call run?
        Approval = "approval",
        /// A tool or the agent wants a value.
        Input = "input",
        /// Whether this call had its effect is not known: what is done about it?
        InDoubt = "in_doubt",
        /// The caller's own program is to carry out this call and hand in the result.
        ClientTool = "client_tool",
        /// The budget or a cap is used up: is the run extended?
        Budget = "budget",
        /// Another agent wants a value.
        PeerInput = "peer_input",
        /// Another agent must be authorised somewhere else first.
        PeerAuth = "peer_auth",
        /// May this plan run?
        PlanReview = "plan_review",
        /// Somebody stopped the run: does it go on?
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

/// How much harm a call may do, as its tool declares or a rule says; shown to the person who decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum RiskLevel {
    /// The lowest of the four.
    Low,
    /// Above `low`.
    Medium,
    /// Above `medium`.
    High,
    /// The highest of the four.
    Critical,
}

words! {
    /// What happens when nobody answers in time.
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    pub enum ExpiryPolicy {
        /// It counts as a no; docs/POLICY.md says what follows for each kind.
        Deny = "deny",
        /// The item that asks fails with `suspension_timed_out`, for a plan review the run.
        Fail = "fail",
        /// The question stays open and is announced again after the same time.
        Remind = "remind",
    }
}

words! {
    /// Whether a question can still be answered. Each status but the first is final.
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    pub enum SuspensionStatus {
        /// It is open.
        Pending = "pending",
        /// A person answered it.
        Resolved = "resolved",
        /// Nobody answered in time.
        Expired = "expired",
        /// It was withdrawn, because its run or its call ended.
        Cancelled = "cancelled",
    }
}

/// A question to a person, as the inbox lists it and `AGENT_SUSPENDED` announced it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Suspension {
    /// Answers name it.
    pub suspension_id: SuspensionId,
    /// The thread whose run waits.
    pub thread_id: ThreadId,
    /// The run that waits.
    pub run_id: RunId,
    /// Which answers are taken.
    pub kind: SuspensionKind,
    /// Only a pending one takes an answer.
    pub status: SuspensionStatus,
    /// The todo item whose work waits; absent: the whole run is asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_id: Option<ItemId>,
    /// The call that is asked about, or that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    /// The tool of the call.
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
    /// The question, as a sentence for people.
    pub message: String,
    /// The form of the answer's `value`.
    pub feedback_schema: FeedbackSchema,
    /// The call asked while it runs: it keeps running, and gets the answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub while_running: bool,
    /// SHA-256, hex, of the canonical JSON of tool and arguments, or of `plan`: what an approval is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// As the tool declares; absent: it declares none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk_level: Option<RiskLevel>,
    /// The agent that asks about a call or a plan of its own. Tool, arguments, plan, digest and risk are the agent's, and
    /// the answer is sent to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteAsker>,
    /// The rule that made it a question, and who may answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Ruling>,
    /// When it was asked, in Unix milliseconds.
    pub created_at: Millis,
    /// When it expires, in Unix milliseconds; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Millis>,
    /// What happens then; absent: it never expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiry_policy: Option<ExpiryPolicy>,
    /// How long it stays open; with the policy `remind`, also the interval at which it is asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_after_ms: Option<Millis>,
    /// How it ended; absent while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
}

/// `AGENT_SUSPENDED`: a question as it is put to people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AskedQuestion {
    /// Answers name it.
    pub suspension_id: SuspensionId,
    /// Which answers are taken.
    pub kind: SuspensionKind,
    /// The question, as a sentence for people.
    pub message: String,
    /// The form of the answer's `value`.
    pub feedback_schema: FeedbackSchema,
    /// The call asked while it runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub while_running: bool,
    /// The call that is asked about, or that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    /// The tool of the call.
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
    /// As the tool declares; absent: it declares none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk_level: Option<RiskLevel>,
    /// The agent that asks about a call or a plan of its own. Tool, arguments, plan, digest and risk are the agent's, and
    /// the answer is sent to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteAsker>,
    /// The rule that made it a question, and who may answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Ruling>,
    /// When it expires, in Unix milliseconds; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Millis>,
    /// What happens then; absent: it never expires.
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
    /// The id under which the agent is registered here.
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
    /// The question, as a sentence for people.
    pub message: String,
    /// The form that the answer must fit.
    pub form: FeedbackSchema,
}

/// The reply to a call that asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "action", rename_all = "lowercase")]
pub enum Reply {
    /// A person answered; the value fits the question's form.
    Accepted {
        /// As the person gave it.
        value: Value,
    },
    /// A person refused to answer.
    Declined,
    /// Nobody answered in time, or there is nobody to ask.
    Cancelled,
}
