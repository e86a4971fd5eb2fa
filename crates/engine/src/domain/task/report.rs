//! What an agent answers to a request about a task, or why it does not.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::Millis;
use crate::domain::hitl::{FeedbackSchema, RiskLevel, SuspensionKind};
use crate::domain::ids::SuspensionId;
use crate::domain::tool::ToolClass;

/// The state of a task as its agent reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// It has not ended and asks nothing.
    Working,
    /// It waits for an answer.
    InputRequired,
    /// It waits until it is authorised somewhere else.
    AuthRequired,
    /// It ended with an output.
    Completed,
    /// It ended without one.
    Failed,
    /// The agent would not take it.
    Rejected,
    /// It was cancelled at the agent.
    Canceled,
}

impl PeerState {
    /// Whether the agent does nothing more about it.
    pub fn is_terminal(self) -> bool {
        match self {
            PeerState::Completed | PeerState::Failed | PeerState::Rejected | PeerState::Canceled => true,
            PeerState::Working | PeerState::InputRequired | PeerState::AuthRequired => false,
        }
    }
}

/// A question of an agent that gives its questions ids, as this server does. An answer names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoteQuestion {
    /// The agent's id of the question.
    pub suspension_id: SuspensionId,
    /// What the agent asks: the kinds are those of this server.
    pub kind: SuspensionKind,
}

/// What an agent asks a person to decide about: a call or a plan of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RemoteSubject {
    /// The tool of the call. Absent if the arguments are.
    pub tool_name: Option<String>,
    /// What the call would run with.
    pub arguments: Option<Value>,
    /// The effect that the agent's tool declares.
    pub class: Option<ToolClass>,
    /// Whether the agent says that repeating the call has its effect only once.
    pub idempotent: Option<bool>,
    /// A `PlanForecast`.
    pub plan: Option<Value>,
    /// What the agent binds an approval to: it is sent back with the answer.
    pub digest: Option<String>,
    /// As the agent's tool declares.
    pub risk_level: Option<RiskLevel>,
    /// When the agent stops waiting for the answer, in Unix milliseconds.
    pub expires_at: Option<Millis>,
}

impl RemoteSubject {
    /// Whether a person can be shown what is decided.
    pub fn can_be_shown(&self) -> bool {
        self.arguments.is_some() || self.plan.is_some()
    }
}

/// An agent's report on a task, in answer to a request of ours.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerReport {
    /// Decides what follows here.
    pub state: PeerState,
    /// The agent's own id of the task; absent: the report names none.
    pub remote_task_id: Option<String>,
    /// The agent's conversation; absent: the report names none.
    pub remote_context_id: Option<String>,
    /// Its last message.
    pub message: Option<String>,
    /// The form of an answer, if the agent gives one.
    pub form: Option<FeedbackSchema>,
    /// The id of the question, if the agent gives one.
    pub question: Option<RemoteQuestion>,
    /// What the question asks a person to decide about, if its kind is one that may let a call run.
    pub subject: Option<RemoteSubject>,
    /// The output of the task.
    pub output: Value,
    /// How long this agent may take, counted from the creation of the task.
    pub patience_ms: Option<Millis>,
}
