//! Everything that can happen to a thread, in the past tense, in groups by where it comes from: a core that knows no tools
//! has one arm for all that tools may bring.

use serde_json::Value;

use crate::Extent;
use crate::domain::facts::Summary;
use crate::domain::hitl::{Answer, Question};
use crate::domain::ids::{CallId, ItemId, MessageId, RunId, StreamId, TaskId};
use crate::domain::message::ConversationMessage;
use crate::domain::model::{ModelFailure, ModelReply};
use crate::domain::policy::Answerer;
use crate::domain::run::Ask;
use crate::domain::settings::RunSettings;
use crate::domain::task::{PeerFailure, Seen};
use crate::domain::thread::{AgentState, ForkedFrom};
use crate::domain::tool::{CallRecord, ToolOutcome};
use crate::history::ShownPlan;

#[derive(Clone, Debug)]
pub enum Event {
    /// A caller posted a query. The ids were made by the one who accepted it.
    Asked {
        run: RunId,
        message: MessageId,
        ask: Box<Ask>,
        /// The thread goes back first.
        rewind: Option<Box<Rewind>>,
    },
    Cancel(CancelEvent),
    Model(ModelEvent),
    Tool(ToolEvent),
    Peer(PeerEvent),
    Person(PersonEvent),
    System(SystemEvent),
}

/// A place in the conversation to which a thread without a run goes back: what was said after it counts no more, and the
/// plan is that of then.
#[derive(Clone, Debug)]
pub struct Rewind {
    /// The thread's last seq when this was put together; later it is refused.
    pub as_of: i64,
    /// What was said after the place, each with the number of its row, oldest first. Empty: the thread is there already.
    pub superseded: Vec<(i64, ConversationMessage)>,
    /// The plan as of the place, with payload references.
    pub plan: ShownPlan,
    /// The calls of its items, as they are stored.
    pub calls: Vec<CallRecord>,
    /// What stood for the oldest messages then, its text as it is stored.
    pub summary: Option<Summary>,
    /// How much was said before the place that this summary does not tell, in bytes.
    pub said: u64,
    /// Who asked for what the plan holds: the names of keys.
    pub askers: Vec<String>,
}

/// The two phases of a cancel.
#[derive(Clone, Debug)]
pub enum CancelEvent {
    /// The run (or, with `None`, the active and every queued one) shall end. With `Running` slots this is the first of
    /// two phases: nothing starts any more.
    Asked { run: Option<RunId>, by: String },
    /// The holder has stopped every effect of a thread whose cancel was asked for: the second phase.
    EffectsStopped,
}

/// What came of an attempt of a model call.
#[derive(Clone, Debug)]
pub enum ModelEvent {
    /// The model answered that stream.
    Replied { stream: StreamId, attempt: u32, reply: Box<ModelReply> },
    /// That attempt was not sent: the conversation does not fit, and this much of it is to be summed up first.
    Overflowed { stream: StreamId, attempt: u32, extent: Extent },
    /// That attempt failed; the engine decides whether there is another.
    Failed { stream: StreamId, attempt: u32, failure: ModelFailure },
}

/// What came of an attempt of a tool call.
#[derive(Clone, Debug)]
pub enum ToolEvent {
    /// A running call asks a person, as the `number`th question of this attempt, and goes on running.
    Asked { call: CallId, attempt: u32, number: u32, question: Box<Question> },
    /// A tool call ended.
    Returned { call: CallId, attempt: u32, outcome: Box<ToolOutcome> },
}

/// What is heard of a task that another agent was given.
#[derive(Clone, Debug)]
pub enum PeerEvent {
    /// The agent reported its task's state, in answer to that attempt of an action.
    Seen { task: TaskId, attempt: u32, seen: Box<Seen> },
    /// That attempt of an action brought nothing; the engine decides what follows.
    Failed { task: TaskId, attempt: u32, failure: PeerFailure },
    /// Somebody who knows the task's secret says that something happened to it: a reason to ask, nothing more.
    CalledBack { task: TaskId, remote_task_id: Option<String> },
}

/// What people do besides asking and cancelling. A core that has nothing of the kind refuses the whole group.
#[derive(Clone, Debug)]
pub enum PersonEvent {
    /// A person answered a suspension; `by` is who. `said` is the message that the answer came as, if it was one.
    Resumed { answer: Box<Answer>, by: Answerer, said: Option<Box<ConversationMessage>> },
    /// Nothing new may start; a suspension of kind `pause` opens.
    PauseAsked { by: String },
    /// One task shall end; its item goes on without it.
    TaskCancelAsked { task: TaskId, by: String },
    /// A person edited the todo list. `expected` is the planVersion from `If-Match`, `list` the whole new list;
    /// `settings` are those that the next run would have, for a thread without an active one.
    PlanEdited { expected: i64, list: Vec<Value>, by: String, settings: Box<RunSettings> },
    /// A person has one item of the active run done again.
    ItemRetried { item: ItemId, by: String },
    /// A person has one item of the active run end where it is.
    ItemSkipped { item: ItemId, by: String },
    /// A client wrote the application state. `expected` is from `If-Match`, if given.
    StatePut { data: Value, expected: Option<i64>, by: String },
    /// A new, empty thread begins as a copy: `state` is the plan in the `PESAgentStateData` of the other one at some seq,
    /// payloads in place. Completed items keep their results, unfinished ones become pending; its log begins with where it comes
    /// from and the messages, and then has a `PLAN` that holds the whole list, so that the copy's own history has a base.
    /// `summary` is what stood for the oldest messages then ([`Fold::summary`](super::history::fold::Fold::summary)), its text in
    /// place.
    Forked {
        from: ForkedFrom,
        state: Box<ShownPlan>,
        messages: Vec<ConversationMessage>,
        agent_state: AgentState,
        summary: Option<Summary>,
        /// Who shaped what the copy may do of the other's work, and who copies it.
        shapers: Vec<String>,
    },
}

/// What happens to the thread as a whole.
#[derive(Clone, Debug)]
pub enum SystemEvent {
    /// A new holder took the thread: slots `Running` under an older epoch are settled.
    Recovered,
    /// A timer is due, or a hint came that something is `Ready`.
    Woke,
    /// The thread crashed again and again; its current and queued runs fail.
    Quarantined { crashes: u32 },
    /// Stored rows of the thread cannot be read: what is left cannot go on, so its current and queued runs fail.
    Unreadable,
    /// A person let a quarantined thread go on.
    Released,
    /// The thread stands as it did once, and what was done since is not known. A suspension of kind `pause` opens, which
    /// says so.
    Restored { message: String },
}
