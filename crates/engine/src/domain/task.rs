//! Tasks delegated to other agents: the status of each, and the next action on it.

mod failure;
mod report;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::facts::A2aTaskBody;
use super::ids::{CallId, ItemId, MessageId, RunId, TaskId, ThreadId};
use super::{Millis, words};

pub use failure::{PeerFailure, PeerFailureKind};
pub use report::{PeerReport, PeerState, RemoteQuestion, RemoteSubject};

/// The tool whose calls become tasks.
pub const TOOL: &str = "delegate_to_agent";

words! {
    /// The status of a task. A terminal status is written once.
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    pub enum TaskStatus {
        /// The message is being sent, or will be as soon as it may.
        Sending = "sending",
        /// The agent has it, and has not ended it.
        Working = "working",
        /// The agent asked something, and waits for the answer.
        InputRequired = "input_required",
        /// The agent must be authorised somewhere else before it goes on.
        AuthRequired = "auth_required",
        /// Whether our message arrived is not known; a person decides.
        InDoubt = "in_doubt",
        /// The agent ended it with an output.
        Completed = "completed",
        /// It ended without an output, as the agent or this server found.
        Failed = "failed",
        /// The agent would not take it.
        Rejected = "rejected",
        /// It was ended by a cancel, the agent's or ours.
        Canceled = "canceled",
        /// The agent no longer knows it.
        Lost = "lost",
    }
}

impl TaskStatus {
    /// Whether the status is final.
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
    /// The task that the call becomes.
    pub task_id: TaskId,
    /// The id under which the agent is registered here.
    pub agent_id: String,
    /// What kind of work it is, in the words of the model; empty if it gave none.
    pub task_type: String,
}

impl Delegation {
    /// Reads the agent and the kind of work from the arguments of the call.
    pub fn new(task_id: TaskId, arguments: &Value) -> Self {
        let word = |key: &str| arguments[key].as_str().unwrap_or_default().to_owned();
        Self { task_id, agent_id: word("agentId"), task_type: word("taskType") }
    }
}

/// The next action on a task, and whether it is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskAction {
    /// What is to be done next.
    pub what: TaskActionKind,
    /// Whether that is in flight.
    pub slot: ActionSlot,
}

/// What may be done about a task.
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

/// Whether an action is in flight: a `Running` one is started by the holder of the thread's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ActionSlot {
    /// It starts at this time, or later.
    Ready {
        /// In Unix milliseconds.
        at: Millis,
    },
    /// It was started and has not been answered.
    Running {
        /// The lease epoch under which it was started.
        epoch: i64,
        /// When it was started, in Unix milliseconds.
        since: Millis,
    },
}

/// A delegated task as it is stored (row kind `task`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Ours; the agent has another.
    pub task_id: TaskId,
    /// The thread that delegated it.
    pub thread_id: ThreadId,
    /// The run that waits for it.
    pub run_id: RunId,
    /// The trace of its run, which requests to the agent continue.
    pub trace_id: String,
    /// The todo item whose call it is.
    pub item_id: Option<ItemId>,
    /// The call whose result it becomes.
    pub call_id: CallId,
    /// The id under which the agent is registered here.
    pub agent_id: String,
    /// What kind of work it is, in the words of the model; empty if it gave none.
    pub task_type: String,
    /// As this server sees it: a terminal one is final, whatever the agent says later.
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
    /// The agent's own id of it; absent until the agent reported one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_task_id: Option<String>,
    /// The conversation that the agent puts it in; absent until the agent reported one.
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
    /// In Unix milliseconds.
    pub created_at: Millis,
    /// When anything of it changed last, in Unix milliseconds.
    pub updated_at: Millis,
    /// When its call fails with `timeout` unless the agent has ended it, in Unix milliseconds.
    pub deadline: Millis,
    /// In Unix milliseconds; absent until it has ended.
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
    /// It was sent to the agent, because the agent still demanded it.
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
    /// Ours; the agent has another.
    pub task_id: TaskId,
    /// The thread that delegated it.
    pub thread_id: ThreadId,
    /// The run that waits for it.
    pub run_id: RunId,
    /// The todo item whose call it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item_id: Option<ItemId>,
    /// The call whose result it becomes.
    pub call_id: CallId,
    /// The id under which the agent is registered here.
    pub agent_id: String,
    /// What kind of work it is, in the words of the model; empty if it gave none.
    pub task_type: String,
    /// As this server sees it: a terminal one is final, whatever the agent says later.
    pub status: TaskStatus,
    /// Why it ended, if not by itself, or why it is not known whether the agent has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The agent's message with the last change of the task that was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The agent's own id of it; absent until the agent reported one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_task_id: Option<String>,
    /// The conversation that the agent puts it in; absent until the agent reported one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_context_id: Option<String>,
    /// When the agent is polled next, if it does not call back before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_ask_at: Option<Millis>,
    /// Whether the agent accepted the cancel; absent if it was not cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel_heard: Option<bool>,
    /// In Unix milliseconds.
    pub created_at: Millis,
    /// When anything of it changed last, in Unix milliseconds.
    pub updated_at: Millis,
    /// When its call fails with `timeout` unless the agent has ended it, in Unix milliseconds.
    pub deadline: Millis,
    /// In Unix milliseconds; absent until it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Millis>,
    /// The `ToolResult` of its call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub result: Option<Value>,
}
