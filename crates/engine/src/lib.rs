//! The engine: pure decisions. No clock, no random, no IO, no tokio: its list of dependencies has none to offer.
//!
//! A core is asked with an event and answers with a [`Step`]: what to store, what happened, and where the thread stands.
//! Effects are not returned but derived: whatever slot is `Running` after the step and was not before
//! ([`step::born`]). So the committed state says what it waits for, and a crash forgets nothing.

pub mod cores;
pub mod domain;
pub mod effect;
pub mod event;
pub mod fold;
pub mod parse;
pub mod pes;
pub mod prompt;
pub mod react;
pub mod step;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::Millis;
use crate::domain::fault::Fault;
use crate::domain::forecast::{PlanForecast, ToolForecast};
use crate::domain::hitl::Suspension;
use crate::domain::ids::{CallId, ItemId, MessageId, PayloadId, RunId, TaskId, ThreadId};
use crate::domain::message::ConversationMessage;
use crate::domain::model::ModelRequest;
use crate::domain::payload::Payloads;
use crate::domain::run::Run;
use crate::domain::settings::RunSettings;
use crate::domain::task::Task;
use crate::domain::thread::{AgentState, Limits};
use crate::domain::tool::{Judgement, PendingQuestion, Proposal, ToolOutcome, ToolSpec};
use crate::domain::trace::CallTrace;
use crate::domain::usage::Price;

use effect::Effect;
use event::Event;
use step::{Row, Step};

/// When and by whom a transition is made. The same state, stamp and event give the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub now: Millis,
    pub seed: u64,
    /// The lease epoch that the committer holds. `None`: it holds no lease, so nothing may become `Running`.
    pub holder: Option<i64>,
}

/// What an event was refused for. The state is as it was before.
#[derive(Clone, Debug, PartialEq)]
pub struct Illegal(pub Fault);

impl From<Fault> for Illegal {
    fn from(fault: Fault) -> Self {
        Self(fault)
    }
}

/// What decisions may look at besides the state: data, never IO.
pub struct World<'a> {
    pub tools: &'a dyn Toolbox,
    pub models: &'a dyn ModelBook,
    pub limits: &'a Limits,
}

/// The tools as the engine knows them: what is offered, and what may be done with a call.
pub trait Toolbox: Send + Sync {
    /// The tools enabled by these settings, by name.
    fn offered(&self, settings: &RunSettings) -> Vec<Arc<ToolSpec>>;
    /// Known, enabled, arguments valid, policy: all that must hold before a call starts.
    fn judge(&self, call: &Proposal<'_>) -> Judgement;
    /// What a call comes to that needs nothing but its arguments and the time: it is no effect. `None`: it is one.
    fn at_once(&self, tool: &str, arguments: &Value, now: Millis, limits: &Limits) -> Option<ToolOutcome> {
        let _ = (tool, arguments, now, limits);
        None
    }
    /// The same of a call with the arguments that a person put in place of its own; `Err`: it may not run with them.
    fn judge_edited(&self, call: &Proposal<'_>) -> Result<Judgement, Fault>;
    /// What will be said of a tool's calls, whose arguments are not known yet; `None`: there is no such tool here.
    fn foresee(&self, thread: &ThreadId, settings: &RunSettings, tool: &str) -> Option<ToolForecast>;
    /// Whether a person's answer fits the suspension's feedback schema.
    fn check_answer(&self, suspension: &Suspension, value: &Value) -> Result<(), Fault>;
}

/// What is known of models.
pub trait ModelBook: Send + Sync {
    /// How many tokens it reads and writes in one call; `None`: nobody said.
    fn window(&self, provider: &str, model: &str) -> Option<u64>;
    /// `None`: nobody said what it costs.
    fn price(&self, provider: &str, model: &str) -> Option<Price>;
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

/// The oldest messages of what a prompt tells of the conversation.
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

/// A thread's state, rebuilt from what is stored: a small head and the rows that were kept.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    pub thread_id: Option<ThreadId>,
    /// The core's own small JSON text; empty for a new thread.
    pub head: String,
    pub rows: Vec<Row>,
    pub last_seq: i64,
}

/// An agent core: a state machine over events. PES is one, `react` another; runtime, store and http know none.
pub trait Core: Send + Sync + 'static {
    /// What `agentCore` names.
    const NAME: &'static str;
    /// Whether it asks a person before a plan runs where `planReview` wants that.
    const REVIEWS_PLANS: bool = false;
    type State: Send + Sync + 'static;

    /// Rebuilds the state. Text of any released version loads; anything else is a fault.
    fn load(loaded: Loaded) -> Result<Self::State, Fault>;
    /// Decides. On `Err` the state is untouched. An answer to a slot that is not open is a step without changes.
    fn decide(state: &mut Self::State, world: &World<'_>, stamp: Stamp, event: Event) -> Result<Step, Illegal>;
    /// The effects of the slots marked `Running`, in a stable order; O(in flight).
    fn running(state: &Self::State) -> Vec<Effect>;
    /// Whether a slot is `Ready` or `Running`: whether the thread must stay in memory.
    fn is_active(state: &Self::State) -> bool;
    /// What the prompt of a `CallModel` needs.
    fn needs(state: &Self::State, effect: &Effect) -> Needs;
    /// Renders the prompt of a `CallModel`; `None` if its slot is no longer open.
    fn request(state: &Self::State, world: &World<'_>, effect: &Effect, material: &Material) -> Option<Prompt>;
    /// What a `CallTool` runs; `None` if its slot is no longer open.
    fn invocation(state: &Self::State, call: &CallId) -> Option<Invocation>;
    /// What an action of a task takes; `None` if there is none under way.
    fn peer_call_input(state: &Self::State, task: &TaskId) -> Option<PeerCallInput> {
        let _ = (state, task);
        None
    }
    /// What a running call asked last, and what it is told. `None`: nothing, or nobody can be asked in this core.
    fn asked(state: &Self::State, call: &CallId) -> Option<PendingQuestion> {
        let _ = (state, call);
        None
    }
    /// `PESAgentStateData`, with payload references.
    fn view(state: &Self::State) -> Value;
    /// What the plan may do: under the settings of the active run, or `next` while there is none. `None`: this core has
    /// no plan.
    fn forecast(state: &Self::State, world: &World<'_>, next: &RunSettings) -> Option<PlanForecast> {
        let _ = (state, world, next);
        None
    }
    /// The active run, if any.
    fn run(state: &Self::State) -> Option<&Run>;
    /// Whether stored rows could not be read: then nothing is decided before [`Event::Unreadable`].
    fn is_unreadable(state: &Self::State) -> bool {
        let _ = state;
        false
    }
}

/// A core with its state, erased, so that the runtime can hold any.
pub trait Machine: Send + Sync {
    fn decide(&mut self, world: &World<'_>, stamp: Stamp, event: Event) -> Result<Step, Illegal>;
    fn running(&self) -> Vec<Effect>;
    fn is_active(&self) -> bool;
    fn needs(&self, effect: &Effect) -> Needs;
    fn request(&self, world: &World<'_>, effect: &Effect, material: &Material) -> Option<Prompt>;
    fn invocation(&self, call: &CallId) -> Option<Invocation>;
    fn peer_call_input(&self, task: &TaskId) -> Option<PeerCallInput>;
    fn asked(&self, call: &CallId) -> Option<PendingQuestion>;
    fn view(&self) -> Value;
    /// See [`Core::forecast`].
    fn forecast(&self, world: &World<'_>, next: &RunSettings) -> Option<PlanForecast> {
        let _ = (world, next);
        None
    }
    fn run(&self) -> Option<&Run>;
    /// See [`Core::is_unreadable`].
    fn is_unreadable(&self) -> bool {
        false
    }
}

/// A core without its state: makes machines.
pub trait DynCore: Send + Sync {
    fn name(&self) -> &'static str;
    /// See [`Core::REVIEWS_PLANS`].
    fn reviews_plans(&self) -> bool {
        false
    }
    fn load(&self, loaded: Loaded) -> Result<Box<dyn Machine>, Fault>;
}

/// Registers a core: `Arc::new(Registered::<Pes>::new())`.
pub struct Registered<C>(std::marker::PhantomData<fn() -> C>);

impl<C> Registered<C> {
    pub fn new() -> Self {
        Self(std::marker::PhantomData)
    }
}

impl<C> Default for Registered<C> {
    fn default() -> Self {
        Self::new()
    }
}

struct Erased<C: Core>(C::State);

impl<C: Core> DynCore for Registered<C> {
    fn name(&self) -> &'static str {
        C::NAME
    }
    fn reviews_plans(&self) -> bool {
        C::REVIEWS_PLANS
    }
    fn load(&self, loaded: Loaded) -> Result<Box<dyn Machine>, Fault> {
        Ok(Box::new(Erased::<C>(C::load(loaded)?)))
    }
}

impl<C: Core> Machine for Erased<C> {
    fn decide(&mut self, world: &World<'_>, stamp: Stamp, event: Event) -> Result<Step, Illegal> {
        let mut step = C::decide(&mut self.0, world, stamp, event)?;
        step.list_runs(stamp.now);
        Ok(step)
    }
    fn running(&self) -> Vec<Effect> {
        C::running(&self.0)
    }
    fn is_active(&self) -> bool {
        C::is_active(&self.0)
    }
    fn needs(&self, effect: &Effect) -> Needs {
        C::needs(&self.0, effect)
    }
    fn request(&self, world: &World<'_>, effect: &Effect, material: &Material) -> Option<Prompt> {
        C::request(&self.0, world, effect, material)
    }
    fn invocation(&self, call: &CallId) -> Option<Invocation> {
        C::invocation(&self.0, call)
    }
    fn peer_call_input(&self, task: &TaskId) -> Option<PeerCallInput> {
        C::peer_call_input(&self.0, task)
    }
    fn asked(&self, call: &CallId) -> Option<PendingQuestion> {
        C::asked(&self.0, call)
    }
    fn view(&self) -> Value {
        C::view(&self.0)
    }
    fn forecast(&self, world: &World<'_>, next: &RunSettings) -> Option<PlanForecast> {
        C::forecast(&self.0, world, next)
    }
    fn run(&self) -> Option<&Run> {
        C::run(&self.0)
    }
    fn is_unreadable(&self) -> bool {
        C::is_unreadable(&self.0)
    }
}
