//! Tasks delegated to other agents: the status of each, and the next action on it.

mod failure;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::facts::A2aTaskBody;
use super::hitl::{FeedbackSchema, RiskLevel, SuspensionKind};
use super::ids::{CallId, ItemId, MessageId, RunId, SuspensionId, TaskId, ThreadId};
use super::tool::ToolClass;
use super::{Millis, words};

pub use failure::{PeerFailure, PeerFailureKind};

/// The tool whose calls become tasks.
pub const TOOL: &str = "delegate_to_agent";

words! {
    /// The status of a task. A terminal status is written once.
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    pub enum TaskStatus {
        /// The message is being sent, or will be as soon as it may.
        Sending = "sending",
        Working = "working",
        InputRequired = "input_required",
        AuthRequired = "auth_required",
        /// Whether our message arrived is not known; a person decides.
        InDoubt = "in_doubt",
        Completed = "completed",
        Failed = "failed",
        Rejected = "rejected",
        Canceled = "canceled",
        /// The agent no longer knows it.
        Lost = "lost",
    }
}

impl TaskStatus {
    pub fn is_terminal(self) -> bool {
        match self {
            TaskStatus::Completed
            | TaskStatus::Failed
            | TaskStatus::Rejected
            | TaskStatus::Canceled
            | TaskStatus::Lost => true,
            TaskStatus::Sending
            | TaskStatus::Working
            | TaskStatus::InputRequired
            | TaskStatus::AuthRequired
            | TaskStatus::InDoubt => false,
        }
    }
}

/// To whom a call goes instead of running here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Delegation {
    pub task_id: TaskId,
    pub agent_id: String,
    pub task_type: String,
}

impl Delegation {
    pub fn new(task_id: TaskId, arguments: &Value) -> Self {
        let word = |key: &str| arguments[key].as_str().unwrap_or_default().to_owned();
        Self { task_id, agent_id: word("agentId"), task_type: word("taskType") }
    }
}

/// The next action on a task, and whether it is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskAction {
    pub what: TaskActionKind,
    pub slot: ActionSlot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskActionKind {
    /// Send the message, which was never sent.
    Send,
    /// The message may have been sent before: find that out, and send it again only to an agent that deduplicates
    /// messages.
    Resend,
    /// Ask the agent for the task's state.
    Ask,
    /// Tell the agent to stop.
    Cancel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ActionSlot {
    Ready { at: Millis },
    Running { epoch: i64, since: Millis },
}

/// A delegated task as it is stored (row kind `task`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    pub task_id: TaskId,
    pub thread_id: ThreadId,
    pub run_id: RunId,
    pub trace_id: String,
    pub item_id: Option<ItemId>,
    pub call_id: CallId,
    pub agent_id: String,
    pub task_type: String,
    pub status: TaskStatus,
    /// Why it ended, if not by itself, or why it is not known whether the agent has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The agent's message with the last change of the task that was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The id of our message: the same, however often it is sent.
    pub message_id: MessageId,
    /// A person's answer, if that is the content of our message; may be a payload reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_task_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_context_id: Option<String>,
    /// What the agent asked in its last report, if that question has an id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_question: Option<RemoteQuestion>,
    /// Why the agent refused a person's last answer, while it waits for another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// What a person answered to the agent's last demand to authorise it, if that gave no id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_answer: Option<AuthAnswer>,
    /// `None`: nothing is to be done; a person decides, or it is over.
    #[serde(default, rename = "errand", skip_serializing_if = "Option::is_none")]
    pub action: Option<TaskAction>,
    /// The number of its last action: an answer to an earlier one changes nothing.
    pub attempt: u32,
    /// Consecutive actions without progress; each is delayed longer than the last. Reset when our message arrives, or when a
    /// person has it sent again.
    pub tries: u32,
    /// How often since its last report the agent replied to polls that it knows no such task, or to cancels that it knows
    /// none or refuses.
    #[serde(default, rename = "strikes")]
    pub negative_replies: u32,
    /// How often since its last report it replied to polls or to cancels what cannot be read.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub unreadable_replies: u32,
    /// How many questions to people it has caused.
    #[serde(default)]
    pub questions: u32,
    /// A callback arrived while an action was in flight.
    #[serde(default)]
    pub called: bool,
    /// Our message may have reached the agent.
    #[serde(default, rename = "isOut")]
    pub may_have_arrived: bool,
    /// It was once unknown whether a message of ours had arrived; later attempts to send it do not change that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub earlier_may_have_arrived: bool,
    /// Whether the agent accepted the cancel; absent until that is settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_heard: Option<bool>,
    pub created_at: Millis,
    pub updated_at: Millis,
    pub deadline: Millis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Millis>,
}

/// A person's answer to an agent that must be authorised elsewhere. An agent may notice that by itself, so it is asked
/// first, and sent the answer only if it still demands the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthAnswer {
    /// The message of the question. Nobody is asked again while the agent repeats it.
    pub question: String,
    /// When a person was asked; 0: an earlier release did not keep it.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub asked_at: Millis,
    /// May be a payload reference.
    pub reply: Value,
    pub is_sent: bool,
}

impl Task {
    /// Whether nothing is left to do about it.
    pub fn is_over(&self) -> bool {
        self.status.is_terminal() && self.action.is_none()
    }

    /// The slot of sending it, if it is to be sent or is being sent.
    pub fn send_slot(&self) -> Option<ActionSlot> {
        self.action
            .filter(|action| matches!(action.what, TaskActionKind::Send | TaskActionKind::Resend))
            .map(|action| action.slot)
    }

    /// The reason, once it is recorded with a status. While a message is being sent, it is why an attempt may have failed.
    fn recorded_reason(&self) -> Option<String> {
        self.reason.clone().filter(|_| self.status != TaskStatus::Sending)
    }

    /// The body of its `A2A_TASK` observation.
    pub fn observation_body(&self) -> A2aTaskBody {
        A2aTaskBody {
            task_id: self.task_id.clone(),
            agent_id: self.agent_id.clone(),
            task_type: self.task_type.clone(),
            call_id: self.call_id.clone(),
            status: self.status,
            submitted_at: self.created_at,
            deadline: self.deadline,
            remote_task_id: self.remote_task_id.clone(),
            remote_context_id: self.remote_context_id.clone(),
            message: self.message.clone(),
            reason: self.recorded_reason(),
            other: Map::new(),
        }
    }

    /// What clients see; `result` is the result of its call.
    pub fn resource(&self, result: Option<Value>) -> TaskResource {
        TaskResource {
            task_id: self.task_id.clone(),
            thread_id: self.thread_id.clone(),
            run_id: self.run_id.clone(),
            item_id: self.item_id.clone(),
            call_id: self.call_id.clone(),
            agent_id: self.agent_id.clone(),
            task_type: self.task_type.clone(),
            status: self.status,
            reason: self.recorded_reason(),
            message: self.message.clone(),
            remote_task_id: self.remote_task_id.clone(),
            remote_context_id: self.remote_context_id.clone(),
            next_ask_at: self.action.and_then(|action| match action {
                TaskAction { what: TaskActionKind::Ask, slot: ActionSlot::Ready { at } } => Some(at),
                TaskAction { .. } => None,
            }),
            cancel_heard: self.cancel_heard,
            created_at: self.created_at,
            updated_at: self.updated_at,
            deadline: self.deadline,
            finished_at: self.finished_at,
            result,
        }
    }
}

/// `GET /tasks/{taskId}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskResource {
    pub task_id: TaskId,
    pub thread_id: ThreadId,
    pub run_id: RunId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item_id: Option<ItemId>,
    pub call_id: CallId,
    pub agent_id: String,
    pub task_type: String,
    pub status: TaskStatus,
    /// Why it ended, if not by itself, or why it is not known whether the agent has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The agent's message with the last change of the task that was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_task_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_context_id: Option<String>,
    /// When the agent is polled next, if it does not call back before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_ask_at: Option<Millis>,
    /// Whether the agent accepted the cancel; absent if it was not cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel_heard: Option<bool>,
    pub created_at: Millis,
    pub updated_at: Millis,
    pub deadline: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Millis>,
    /// The `ToolResult` of its call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub result: Option<Value>,
}

/// The state of a task as its agent reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    Working,
    InputRequired,
    AuthRequired,
    Completed,
    Failed,
    Rejected,
    Canceled,
}

impl PeerState {
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
    pub suspension_id: SuspensionId,
    pub kind: SuspensionKind,
}

/// What an agent asks a person to decide about: a call or a plan of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RemoteSubject {
    /// The tool of the call. Absent if the arguments are.
    pub tool_name: Option<String>,
    pub arguments: Option<Value>,
    pub class: Option<ToolClass>,
    pub idempotent: Option<bool>,
    /// A `PlanForecast`.
    pub plan: Option<Value>,
    pub digest: Option<String>,
    pub risk_level: Option<RiskLevel>,
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
    pub state: PeerState,
    pub remote_task_id: Option<String>,
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
