//! Everything that can happen to a thread, in the past tense, grouped by source: a core without tools handles all tool
//! events in one match arm.

use std::collections::HashSet;

use serde_json::Value;

use crate::SummaryExtent;
use crate::domain::facts::Summary;
use crate::domain::hitl::{Answer, Question};
use crate::domain::ids::{CallId, ItemId, MessageId, RunId, StreamId, TaskId};
use crate::domain::message::ConversationMessage;
use crate::domain::model::{ModelFailure, ModelReply};
use crate::domain::policy::Answerer;
use crate::domain::run::Ask;
use crate::domain::settings::RunSettings;
use crate::domain::task::{PeerFailure, PeerReport};
use crate::domain::thread::{AgentState, ForkedFrom};
use crate::domain::tool::{CallRecord, ToolOutcome};
use crate::history::ShownPlan;

/// What a [`Machine`](crate::Machine) decides about: something that has happened, with all that the decision may know of it.
#[derive(Clone, Debug)]
pub enum Event {
    /// A caller posted a query. The ids were made by the code that accepted it.
    Asked {
        /// The id that the new run gets.
        run: RunId,
        /// The id that the user's message gets.
        message: MessageId,
        /// The request with its settings, resolved.
        ask: Box<Ask>,
        /// The thread is rewound first.
        rewind: Option<Box<Rewind>>,
    },
    /// The active run, or all runs, are to end.
    Cancel(CancelEvent),
    /// A model call ended or was not sent.
    Model(ModelEvent),
    /// A tool call ended, or asks a person while it runs.
    Tool(ToolEvent),
    /// Another agent answered a request about its task, or did not.
    Peer(PeerEvent),
    /// A person decided or changed something.
    Person(PersonEvent),
    /// Something happened to the thread as a whole.
    System(SystemEvent),
}

/// An earlier point of the conversation to which a thread without a run is reset: later messages are superseded, and
/// the plan is restored as it was then.
#[derive(Clone, Debug)]
pub struct Rewind {
    /// The thread's last seq when this was put together. The event is refused if the thread has moved on since.
    pub as_of: i64,
    /// The messages after that point, each with the number of its row, oldest first. Empty: the thread is at that point
    /// already.
    pub superseded: Vec<(i64, ConversationMessage)>,
    /// The plan as of that point, with payload references.
    pub plan: ShownPlan,
    /// The calls of its items, as they are stored.
    pub calls: Vec<CallRecord>,
    /// The summary of the oldest messages as of that point, its text as it is stored.
    pub summary: Option<Summary>,
    /// How many bytes of messages before that point this summary does not cover.
    pub history_bytes: u64,
    /// Who requested the work in the plan: names of keys.
    pub askers: Vec<String>,
    /// The digests of the calls that may have had an effect and that nothing tells of at that point
    /// ([`later_calls`](crate::history::later_calls)).
    pub later: Vec<String>,
}

/// The two phases of a cancel.
#[derive(Clone, Debug)]
pub enum CancelEvent {
    /// The run (or, with `None`, the active and every queued one) is to end. While slots are `Running` this is the
    /// first of two phases: nothing new starts.
    Asked {
        /// The run that is to end; `None`: the active one and all queued ones.
        run: Option<RunId>,
        /// The name of the key or person, or of the part of the server that cancels.
        by: String,
    },
    /// The lease holder has stopped every effect of a thread that is being cancelled: the second phase.
    EffectsStopped,
}

/// The result of an attempt of a model call.
#[derive(Clone, Debug)]
pub enum ModelEvent {
    /// The model replied on that stream.
    Replied {
        /// The attempt's stream.
        stream: StreamId,
        /// The attempt that the slot was started with; another one changes nothing.
        attempt: u32,
        /// The whole reply.
        reply: Box<ModelReply>,
    },
    /// That attempt was not sent: the conversation does not fit, and this part of it must be summed up first.
    Overflowed {
        /// The attempt's stream.
        stream: StreamId,
        /// The attempt that the slot was started with; another one changes nothing.
        attempt: u32,
        /// The messages that are to be summed up.
        extent: SummaryExtent,
    },
    /// That attempt failed; the engine decides whether there is another.
    Failed {
        /// The attempt's stream.
        stream: StreamId,
        /// The attempt that the slot was started with; another one changes nothing.
        attempt: u32,
        /// Why, and what can be done about it.
        failure: ModelFailure,
    },
}

/// What an attempt of a tool call reports.
#[derive(Clone, Debug)]
pub enum ToolEvent {
    /// A running call asked a person a question, the `number`th one of this attempt, and keeps running.
    Asked {
        /// The call that asks.
        call: CallId,
        /// The attempt that the call was started with; another one changes nothing.
        attempt: u32,
        /// From 1, within the attempt.
        number: u32,
        /// The text and the form of the answer.
        question: Box<Question>,
    },
    /// The running call no longer waits for the answer to that question.
    Withdrew {
        /// The call that asked.
        call: CallId,
        /// The attempt that the call was started with; another one changes nothing.
        attempt: u32,
        /// The question's number within the attempt.
        number: u32,
    },
    /// A tool call ended.
    Returned {
        /// The call that ended.
        call: CallId,
        /// The attempt that the call was started with; another one changes nothing.
        attempt: u32,
        /// Its output or its error.
        outcome: Box<ToolOutcome>,
    },
}

/// What is learned of a task that was delegated to another agent.
#[derive(Clone, Debug)]
pub enum PeerEvent {
    /// The agent reported its task's state, in answer to that attempt of an action.
    Reported {
        /// Our id of the task.
        task: TaskId,
        /// The attempt of the action that was answered; another one changes nothing.
        attempt: u32,
        /// What the agent said.
        report: Box<PeerReport>,
    },
    /// That attempt of an action failed; the engine decides what follows.
    Failed {
        /// Our id of the task.
        task: TaskId,
        /// The attempt of the action that failed; another one changes nothing.
        attempt: u32,
        /// Why, and what can be done about it.
        failure: PeerFailure,
    },
    /// A caller who knows the task's secret sent a notification about it. That is a reason to ask the agent; nothing in
    /// it is trusted.
    CalledBack {
        /// Our id of the task.
        task: TaskId,
        /// The agent's id of the task, if the notification names one: another task's is ignored.
        remote_task_id: Option<String>,
    },
}

/// A message that came with the answer to a suspension.
#[derive(Clone, Debug)]
pub struct AnswerMessage {
    /// The message as the conversation keeps it.
    pub message: ConversationMessage,
    /// The message is not the answer but says something more. It changes the course of the run like a message that was
    /// sent to steer it.
    pub steers: bool,
}

/// What people do besides asking and cancelling. A core that supports none of it refuses the whole group.
#[derive(Clone, Debug)]
pub enum PersonEvent {
    /// The person `by` answered a suspension. `said` is the message that came with the answer, if there was one.
    Resumed {
        /// The answer, checked by the machine against the question.
        answer: Box<Answer>,
        /// Who answers: the rule of the question may name who may.
        by: Answerer,
        /// The message that came with it.
        said: Option<Box<AnswerMessage>>,
    },
    /// A pause was requested: nothing new may start, and a suspension of kind `pause` opens.
    PauseAsked {
        /// The name of the key or person.
        by: String,
    },
    /// One task is to be cancelled; its item continues without it.
    TaskCancelAsked {
        /// Our id of the task.
        task: TaskId,
        /// The name of the key or person.
        by: String,
    },
    /// A person edited the todo list. `expected` is the planVersion from `If-Match`, `list` the whole new list;
    /// `settings` are those that the next run would have, for a thread without an active one.
    PlanEdited {
        /// The planVersion that the person saw; another one is refused.
        expected: i64,
        /// The whole new list, as the request has it.
        list: Vec<Value>,
        /// The name of the key or person.
        by: String,
        /// The settings that the next run would have: the list is checked against its tools.
        settings: Box<RunSettings>,
    },
    /// A person wants one item of the active run done again.
    ItemRetried {
        /// The item, of the active run.
        item: ItemId,
        /// The name of the key or person.
        by: String,
    },
    /// A person wants one item of the active run skipped, whatever its progress.
    ItemSkipped {
        /// The item, of the active run.
        item: ItemId,
        /// The name of the key or person.
        by: String,
    },
    /// A client wrote the application state. `expected` is from `If-Match`, if given.
    StatePut {
        /// The whole new state.
        data: Value,
        /// The version that the client saw; `None`: whatever it is.
        expected: Option<i64>,
        /// The name of the key or person.
        by: String,
    },
    /// A new, empty thread begins as a copy of another: `state` is the other's plan as of some seq, from its
    /// `PESAgentStateData`, with payloads inlined. Settled items keep their results; unfinished ones become pending and
    /// keep their calls. The log begins with the origin and the messages, followed by a `PLAN` that holds the whole
    /// list, so that the copy's own history has a base. `summary` is the summary of the oldest messages as of then
    /// ([`Fold::summary`](super::history::fold::Fold::summary)), with its text inlined.
    Forked {
        /// The other thread, and its last observation that counts.
        from: ForkedFrom,
        /// The other thread's plan as of then.
        state: Box<ShownPlan>,
        /// The messages as of then, oldest first.
        messages: Vec<ConversationMessage>,
        /// Those of `messages` that are kept, but are not part of the conversation.
        superseded: HashSet<MessageId>,
        /// The application state as of then.
        agent_state: AgentState,
        /// The summary of the oldest messages as of then.
        summary: Option<Box<Summary>>,
        /// Who requested or edited the work that the copy takes over, and who copies it.
        shapers: Vec<String>,
        /// The digests of the calls that the copy asks about: those that the other thread made after that seq and that may
        /// have had an effect, and those that it asks about itself
        /// ([`later_calls`](crate::history::later_calls)).
        later: Vec<String>,
    },
}

/// What happens to the thread as a whole.
#[derive(Clone, Debug)]
pub enum SystemEvent {
    /// A new lease holder took the thread over: slots `Running` under an older epoch are settled.
    Recovered,
    /// A timer is due, or a notification arrived that something is `Ready`.
    Woke,
    /// The thread crashed again and again; its current and queued runs fail.
    Quarantined {
        /// How often in a row.
        crashes: u32,
    },
    /// Stored rows of the thread cannot be read. The rest cannot continue, so its current and queued runs fail.
    Unreadable,
    /// A person released a quarantined thread.
    Released,
    /// The thread was restored to an earlier state, and what was done since is not known. A suspension of kind `pause`
    /// opens with this message.
    Restored {
        /// What the person who lets it go on reads.
        message: String,
    },
}
