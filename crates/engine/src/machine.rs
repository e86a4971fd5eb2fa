//! A core makes machines; a machine decides for one thread. Of the server only the runtime holds machines, as
//! `dyn Machine`: it does not know which core made them.

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
use crate::effect::Effect;
use crate::event::Event;
use crate::history::ShownPlan;
use crate::step::{Row, Step};
use crate::world::{Illegal, Reservation, Stamp, World};

/// An agent core: makes the machines of the threads whose `agentCore` names it. `Arc::new(Pes::planned())` registers one.
pub trait Core: Send + Sync + 'static {
    /// What `agentCore` names.
    fn name(&self) -> &str;
    /// Rebuilds a thread's state. Text of any released version loads; that of a newer one is a fault, which leaves the thread
    /// and its runs as they are. Of what is damaged, the machine says so ([`Machine::is_unreadable`]), so that its runs end.
    fn load(&self, loaded: Loaded) -> Result<Box<dyn Machine>, Fault>;
    /// Whether it asks a person before a plan runs where `planReview` wants that.
    fn reviews_plans(&self) -> bool {
        false
    }
    /// A machine in which that model call is under way again, so that its prompt can be rendered once more; nothing is
    /// decided on it. `None`: this core does not look back.
    fn past(&self, call: PastCall) -> Option<Box<dyn Machine>> {
        let _ = call;
        None
    }
}

/// The state of one thread: it takes events and says what it waits for. Call [`step::decide`](crate::step::decide), which
/// asks it and completes what it answers.
pub trait Machine: Send + Sync {
    /// On `Err` the state is untouched. An answer to a slot that is not open is a step without changes.
    fn decide(&mut self, world: &World<'_>, stamp: Stamp, event: Event) -> Result<Step, Illegal>;
    /// The effects of the slots marked `Running`, in a stable order; O(in flight).
    fn running(&self) -> Vec<Effect>;
    /// Whether a slot is `Ready` or `Running`: whether the thread must stay in memory.
    fn is_active(&self) -> bool;
    /// Whether no run is active, and the next one waits until it may begin ([`Begin`](crate::Begin)).
    fn waits_to_begin(&self) -> bool {
        false
    }
    /// What the prompt of a `CallModel` needs.
    fn needs(&self, effect: &Effect) -> Needs;
    /// Renders the prompt of a `CallModel`; `None` if its slot is no longer open.
    fn request(&self, world: &World<'_>, effect: &Effect, material: &Material) -> Option<Prompt>;
    /// `PESAgentStateData`, with payload references.
    fn view(&self) -> Value;
    /// What [`view`](Self::view) shows of the plan, with payload references. An error: the view is none.
    fn plan(&self) -> serde_json::Result<ShownPlan> {
        ShownPlan::of(&self.view())
    }
    /// The active run, if any.
    fn run(&self) -> Option<&Run>;
    /// What people are asked, oldest first; with payload references.
    fn questions(&self) -> Vec<AskedQuestion> {
        Vec::new()
    }
    /// What a `CallTool` runs. `None`: its slot is no longer open, or this core calls no tools.
    fn invocation(&self, call: &CallId) -> Option<Invocation> {
        let _ = call;
        None
    }
    /// What an action of a task takes. `None`: there is none under way, or this core delegates nothing.
    fn peer_call_input(&self, task: &TaskId) -> Option<PeerCallInput> {
        let _ = task;
        None
    }
    /// The last question of a running call, and its reply. `None`: nothing, or nobody can be asked in this core.
    fn asked(&self, call: &CallId) -> Option<PendingQuestion> {
        let _ = call;
        None
    }
    /// What the plan may do: under the settings of the active run, or `next` while there is none. `None`: this core has
    /// no plan.
    fn forecast(&self, world: &World<'_>, next: &RunSettings) -> Option<PlanForecast> {
        let _ = (world, next);
        None
    }
    /// What its model calls under way may cost, of those that were reserved under the caps on spending.
    fn reservations(&self) -> Vec<Reservation> {
        Vec::new()
    }
    /// Whether of the stored head or rows something could not be read: then nothing is decided before
    /// [`SystemEvent::Unreadable`](crate::event::SystemEvent::Unreadable).
    fn is_unreadable(&self) -> bool {
        false
    }
}

/// A thread's state as it is stored: a small head and the rows that were kept.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    pub thread_id: Option<ThreadId>,
    /// The core's own small JSON text; empty for a new thread.
    pub head: String,
    pub rows: Vec<Row>,
    pub last_seq: i64,
}

/// A model call that was made, as the log and the rows tell of it; with payload references.
#[derive(Clone, Debug)]
pub struct PastCall {
    pub thread_id: ThreadId,
    pub run: Run,
    /// Whose step it was.
    pub item: Option<ItemId>,
    pub begun: LlmStreamStartBody,
    /// The plan right before it.
    pub plan: ShownPlan,
    /// What stood for the oldest messages.
    pub summary: Option<Summary>,
    /// The last message that it was to sum up, if it was made for that.
    pub sums_upto: Option<MessageId>,
    /// Messages that had changed the course of its run before.
    pub steers: Vec<RecordedMessage>,
    /// What had been replied for its item in this run.
    pub replies: Vec<Value>,
    /// The calls of the plan, and the turns of its item since the run was asked for.
    pub rows: Vec<Row>,
    /// What of the conversation does not fit is left out: it was not summed up.
    pub is_cut: bool,
}

/// What a prompt needs besides the state; read from the store when an effect is performed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Needs {
    pub payloads: Vec<PayloadId>,
    pub history: Option<Recent>,
}

/// Messages before this run's own: the newest so many, and all that came after one of them, however many those are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recent {
    pub newest: u32,
    pub since: Option<MessageId>,
    /// Whose messages are none of them: runs that have not begun, each with one message.
    pub except: Vec<RunId>,
}

impl Recent {
    /// The newest so many of what was found, without what `except` names and what nobody said.
    pub fn kept(&self, mut found: Vec<ConversationMessage>, most: u32) -> Vec<ConversationMessage> {
        found.retain(|message| !message.is_error());
        found.retain(|message| message.run_id.as_ref().is_none_or(|run| !self.except.contains(run)));
        found.split_off(found.len().saturating_sub(most as usize))
    }
}

/// What was read for [`Needs`].
#[derive(Clone, Debug, Default)]
pub struct Material {
    pub payloads: Payloads,
    /// Oldest first.
    pub history: Vec<ConversationMessage>,
}

/// What performing a `CallModel` begins with.
#[derive(Clone, Debug)]
pub enum Prompt {
    Call(Box<ModelRequest>),
    /// Nothing is sent: so much of the conversation must be summed up first.
    Overflows(Extent),
}

/// The oldest messages of the conversation in a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Extent {
    /// The last of them.
    pub upto: MessageId,
    pub messages: usize,
    pub bytes: u64,
}

/// Everything that performing a tool call takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Invocation {
    pub call_id: CallId,
    pub tool_name: String,
    /// May hold payload references.
    pub arguments: Value,
    /// Of tool and arguments as they were approved: nothing else runs.
    pub digest: Option<String>,
    /// What was decided about it, and by which rule.
    pub policy: Option<Ruling>,
    pub run_id: RunId,
    pub item_id: Option<ItemId>,
    pub user_id: Option<String>,
    pub trace: CallTrace,
    /// The same for every attempt of this call.
    pub idempotency_key: String,
    /// As it is when the call starts.
    pub agent_state: AgentState,
}

/// Everything that performing an action of a task takes.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerCallInput {
    pub task: Task,
    /// What the agent is asked to do; may hold payload references. `Null` if the call is no longer known.
    pub arguments: Value,
    /// Of tool and arguments as they were approved: nothing else is sent.
    pub digest: Option<String>,
    pub user_id: Option<String>,
    pub trace: CallTrace,
}
