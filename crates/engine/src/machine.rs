//! A core creates machines; a machine makes the decisions of one thread. In the server only the runtime holds machines,
//! as `dyn Machine`; it does not know which core created them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::facts::{LlmStreamStartBody, RecordedMessage, Summary};
use crate::domain::fault::Fault;
use crate::domain::forecast::PlanForecast;
use crate::domain::hitl::AskedQuestion;
use crate::domain::ids::{CallId, ItemId, MessageId, PayloadId, RunId, TaskId, ThreadId};
use crate::domain::message::ConversationMessage;
use crate::domain::model::ModelRequest;
use crate::domain::payload::Payloads;
use crate::domain::policy::Ruling;
use crate::domain::run::Run;
use crate::domain::settings::RunSettings;
use crate::domain::task::Task;
use crate::domain::thread::AgentState;
use crate::domain::tool::PendingQuestion;
use crate::domain::trace::CallTrace;
use crate::domain::usage::Nanos;
use crate::effect::Effect;
use crate::event::Event;
use crate::history::ShownPlan;
use crate::step::{Row, Step};
use crate::world::{Reservation, Stamp, World};

/// An agent core: makes the machines of the threads whose `agentCore` names it. `Arc::new(Pes::planned())` registers one.
pub trait Core: Send + Sync + 'static {
    /// The name by which a thread's `agentCore` refers to it.
    fn name(&self) -> &str;
    /// Rebuilds a thread's state. State of any released version loads. State of a newer version is a fault, which
    /// leaves the thread and its runs as they are. If part of it is damaged, loading succeeds and the machine reports
    /// that ([`Machine::is_unreadable`]), so that its runs can be ended.
    fn load(&self, loaded: Loaded) -> Result<Box<dyn Machine>, Fault>;
    /// Whether it asks a person before a plan runs, if `planReview` requires that.
    fn reviews_plans(&self) -> bool {
        false
    }
    /// A machine in which that past model call is running again, so that its prompt can be rendered once more. No event
    /// is ever decided on it. `None`: this core cannot reconstruct past calls.
    fn past(&self, call: PastCall) -> Option<Box<dyn Machine>> {
        let _ = call;
        None
    }
}

/// The state of one thread: it handles events, and its slots say what the thread waits for. Callers use
/// [`step::decide`](crate::step::decide), which calls [`decide`](Self::decide) and completes its step.
///
/// A custom core implements `decide`, `running`, `is_active`, `prompt_needs`, `prompt`, `view` and `run`; and of the
/// others those for what it does: calling tools, delegating, asking people, planning, keeping a budget.
pub trait Machine: Send + Sync {
    // What it decides.

    /// An error is why the event was refused; the state is unchanged. An answer to a slot that is not open gives a step
    /// without changes.
    fn decide(&mut self, world: &World<'_>, stamp: Stamp, event: Event) -> Result<Step, Fault>;
    /// The effects of the slots marked `Running`, in a stable order; O(in flight).
    fn running(&self) -> Vec<Effect>;
    /// Whether a slot is `Ready` or `Running`: whether the thread must stay in memory.
    fn is_active(&self) -> bool;
    /// Whether no run is active and the next queued run waits for admission ([`RunAdmission`](crate::RunAdmission)).
    fn waits_to_begin(&self) -> bool {
        false
    }
    /// What the model calls in flight may cost at most: those that were reserved under a spending cap.
    fn reservations(&self) -> Vec<Reservation> {
        Vec::new()
    }
    /// Whether part of the stored head or rows could not be read. Then nothing is decided before
    /// [`SystemEvent::Unreadable`](crate::event::SystemEvent::Unreadable).
    fn is_unreadable(&self) -> bool {
        false
    }

    // The input of effects.

    /// What must be read from the store to render the prompt of a `CallModel`.
    fn prompt_needs(&self, effect: &Effect) -> PromptNeeds;
    /// Renders the prompt of a `CallModel`; `None` if its slot is no longer open.
    fn prompt(&self, world: &World<'_>, effect: &Effect, material: &PromptMaterial) -> Option<Prompt>;
    /// The input of a `CallTool`. `None`: its slot is no longer open, or this core calls no tools.
    fn invocation(&self, call: &CallId) -> Option<Invocation> {
        let _ = call;
        None
    }
    /// The input of a task's action. `None`: no action is in flight, or this core delegates nothing.
    fn peer_call_input(&self, task: &TaskId) -> Option<PeerCallInput> {
        let _ = task;
        None
    }
    /// The last question that a running call asked, and its reply. `None`: it asked none, or calls of this core cannot
    /// ask.
    fn asked(&self, call: &CallId) -> Option<PendingQuestion> {
        let _ = call;
        None
    }

    // What is shown.

    /// `PESAgentStateData`, with payload references.
    fn view(&self) -> Value;
    /// The plan part of [`view`](Self::view), with payload references. An error: the view does not have that shape.
    fn plan(&self) -> serde_json::Result<ShownPlan> {
        ShownPlan::of(&self.view())
    }
    /// The active run, if any.
    fn run(&self) -> Option<&Run>;
    /// The open questions to people, oldest first; with payload references.
    fn questions(&self) -> Vec<AskedQuestion> {
        Vec::new()
    }
    /// The tools that the plan may call, under the settings of the active run, or under `next` while there is none.
    /// `None`: this core has no plan.
    fn forecast(&self, world: &World<'_>, next: &RunSettings) -> Option<PlanForecast> {
        let _ = (world, next);
        None
    }
    /// The money that is left of the active run's budget, with what people added to it. `None`: no run is active, or its
    /// budget does not bound the money.
    fn budget_left(&self) -> Option<Nanos> {
        None
    }
}

/// A thread's state as it is stored: a small head, and the rows that are loaded with it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The thread whose state it is.
    pub thread_id: ThreadId,
    /// The core's own small JSON text; empty for a new thread.
    pub head: String,
    /// Those whose [`Keep`](crate::step::Keep) says so; the core asks for others when it needs them.
    pub rows: Vec<Row>,
    /// The seq of its newest observation; 0 for a new thread.
    pub last_seq: i64,
}

impl Loaded {
    /// A new thread: nothing of it is stored.
    pub fn empty(thread_id: ThreadId) -> Self {
        Self { thread_id, head: String::new(), rows: Vec::new(), last_seq: 0 }
    }
}

/// A past model call, as the log and the rows describe it; with payload references.
#[derive(Clone, Debug)]
pub struct PastCall {
    /// The thread whose call it was.
    pub thread_id: ThreadId,
    /// The run whose call it was, with its settings.
    pub run: Run,
    /// The item whose step it was.
    pub item: Option<ItemId>,
    /// How the call began: its phase, its model and its attempt.
    pub begun: LlmStreamStartBody,
    /// The plan just before it.
    pub plan: ShownPlan,
    /// The summary that stood in for the oldest messages.
    pub summary: Option<Summary>,
    /// For a summary call: the last message that it was to sum up.
    pub sums_upto: Option<MessageId>,
    /// Messages that had steered its run before.
    pub steers: Vec<RecordedMessage>,
    /// The model's earlier replies for its item in this run.
    pub replies: Vec<Value>,
    /// The calls of the plan, and the turns of its item since the run was requested.
    pub rows: Vec<Row>,
    /// The part of the conversation that does not fit is left out: it was not summed up.
    pub is_cut: bool,
}

/// What must be read from the store to render a prompt when an effect is performed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PromptNeeds {
    /// Large values of the state that stand in the prompt.
    pub payloads: Vec<PayloadId>,
    /// The messages before this run's own; `None`: the prompt has none.
    pub history: Option<HistoryQuery>,
}

/// Which messages before this run's own are read: the `newest` ones, and all that follow `since`, however many those
/// are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistoryQuery {
    /// How many of the newest messages are read.
    pub newest: u32,
    /// All messages after this one are read, too; `None`: only the newest.
    pub since: Option<MessageId>,
    /// Runs whose messages are excluded: runs that have not begun, each with one message.
    pub except: Vec<RunId>,
}

impl HistoryQuery {
    /// Returns the newest `most` of the messages found, without those of the runs in `except` and without error
    /// messages.
    pub fn kept(&self, mut found: Vec<ConversationMessage>, most: u32) -> Vec<ConversationMessage> {
        found.retain(|message| !message.is_error());
        found.retain(|message| message.run_id.as_ref().is_none_or(|run| !self.except.contains(run)));
        found.split_off(found.len().saturating_sub(most as usize))
    }
}

/// What was read for [`PromptNeeds`].
#[derive(Clone, Debug, Default)]
pub struct PromptMaterial {
    /// The values that were asked for, by their ids.
    pub payloads: Payloads,
    /// Oldest first.
    pub history: Vec<ConversationMessage>,
}

/// The result of rendering the prompt of a `CallModel`.
#[derive(Clone, Debug)]
pub enum Prompt {
    /// The request, as it is sent.
    Call(Box<ModelRequest>),
    /// Nothing is sent: this part of the conversation must be summed up first.
    Overflows(SummaryExtent),
}

/// The oldest messages of the conversation in a prompt: those that are to be summed up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SummaryExtent {
    /// The last of them.
    pub upto: MessageId,
    /// How many they are.
    pub messages: usize,
    /// Their length together.
    pub bytes: u64,
}

/// Everything that is needed to perform a tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct Invocation {
    /// The call to make.
    pub call_id: CallId,
    /// The tool that the registry knows by this name.
    pub tool_name: String,
    /// May hold payload references.
    pub arguments: Value,
    /// The digest of tool and arguments as they were approved: nothing else may run.
    pub digest: Option<String>,
    /// The policy decision about it, and the rule behind it.
    pub policy: Option<Ruling>,
    /// The settings of its run, if the policy decided about it in an earlier commit: before it is made, the policy of now must
    /// not deny it. `None`: the policy has just decided.
    pub judged_before: Option<Arc<RunSettings>>,
    /// The run that the call belongs to.
    pub run_id: RunId,
    /// The todo item whose step asked for it.
    pub item_id: Option<ItemId>,
    /// The caller's own id of its user.
    pub user_id: Option<String>,
    /// The trace headers to send with it.
    pub trace: CallTrace,
    /// The same for every attempt of this call.
    pub idempotency_key: String,
    /// The application's state when the call starts.
    pub agent_state: AgentState,
}

/// Everything that is needed to perform an action of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerCallInput {
    /// The task, with the action that is due.
    pub task: Task,
    /// The request to the agent; may hold payload references. `Null` if the call is no longer loaded.
    pub arguments: Value,
    /// The digest of tool and arguments as they were approved: nothing else may be sent.
    pub digest: Option<String>,
    /// As in [`Invocation`], for the first message of a task.
    pub judged_before: Option<Arc<RunSettings>>,
    /// The caller's own id of its user.
    pub user_id: Option<String>,
    /// The trace headers to send with the request.
    pub trace: CallTrace,
}
