//! The commands of an actor's mailbox, and their replies.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::oneshot;

use super::loaded::LoadedThread;
use crate::domain::Millis;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::RunId;
use crate::domain::lookup::{LookupKey, RunLookups};
use crate::domain::run::Run;
use crate::domain::thread::{AgentState, ThreadProfile};
use crate::engine::event::Event;
use crate::engine::history::ShownPlan;
use crate::engine::step::{Row, RowKind, Step};
use crate::outbox::PushTarget;
use crate::runtime::rows::legible;
use crate::runtime::snapshot::plan_of;
use crate::store::{AuditRow, Fire, IdempotencyRow, NewLookup, NewThread, ThreadRow};

pub(super) type Reply<T> = oneshot::Sender<Result<T, CommandError>>;

pub(in crate::runtime) enum Command {
    /// Decides on an event, commits, publishes, then replies.
    Decide { event: Arc<Event>, extras: Box<CommitExtras>, reply: Reply<DecisionResult> },
    /// Changes the thread's profile.
    EditProfile { edit: ProfileEdit, reply: Reply<()> },
    /// Stores a row that no decision writes: a push receiver, the retention of the thread.
    StoreRow { row: Row, audit: Option<AuditedAction>, reply: Reply<()> },
    /// Stops all effects and erases the thread.
    Delete { by: String, reply: Reply<()> },
    /// Erases the thread if it is at rest and unused since `before`: on behalf of `by`, or because of its age. Replies whether it
    /// did.
    Expire { before: Millis, by: Option<String>, reply: Reply<bool> },
    /// Does what is due: a timer, a ready slot, a thread without an owner, or one that was erased elsewhere. Replies when that
    /// is committed.
    Wake { reply: Reply<()> },
}

/// An action of a person or a key, for the audit.
#[derive(Clone, Debug)]
pub(crate) struct AuditedAction {
    pub(crate) actor: String,
    pub(crate) action: &'static str,
    pub(crate) detail: Value,
}

/// What a commit stores besides the event's own step.
#[derive(Default)]
pub(crate) struct CommitExtras {
    /// The thread is to be created by this commit.
    pub(crate) create: Option<(NewThread, ThreadProfile)>,
    /// The answer under the request's `Idempotency-Key`.
    pub(crate) idempotency: Option<IdempotencyRowFn>,
    /// Rows of the thread that no decision writes.
    pub(crate) rows: Vec<Row>,
    /// The lookup keys of the requested run.
    pub(crate) lookups: Option<RunLookups>,
    /// The push receivers of the run that is begun or continued.
    pub(crate) pushes: Vec<NewReceiver>,
    /// The scheduled time that the run is for.
    pub(crate) fire: Option<Fire>,
    pub(crate) audit: Option<AuditedAction>,
    /// The answer shows the plan.
    pub(crate) wants_plan: bool,
}

impl CommitExtras {
    /// Only an audit entry.
    pub(crate) fn audited(actor: String, action: &'static str, detail: Value) -> Self {
        Self { audit: Some(AuditedAction { actor, action, detail }), ..Self::default() }
    }
}

/// A push receiver that a request adds to a run, or puts in place of the one with its id.
#[derive(Clone, Debug)]
pub(crate) struct NewReceiver {
    pub(crate) target: PushTarget,
    pub(crate) by: String,
}

impl RunLookups {
    pub(super) fn of(&self, decided: &DecisionResult) -> Vec<NewLookup> {
        let Some(run) = decided.run_of(&self.run) else { return Vec::new() };
        let new = |key: &LookupKey| NewLookup { key: key.clone(), run: run.run_id.clone() };
        self.keys.iter().map(new).collect()
    }
}

/// Makes the row with the answer under an `Idempotency-Key`, from the decision and its time.
pub(crate) type IdempotencyRowFn = Box<dyn Fn(&DecisionResult, Millis) -> IdempotencyRow + Send + Sync>;

/// Makes the changed profile from the stored thread, or refuses the change.
pub(crate) type ProfileEdit = Box<dyn Fn(&ThreadRow, Millis) -> Result<EditedProfile, Fault> + Send + Sync>;

/// A changed profile, and what is stored with it.
pub(crate) struct EditedProfile {
    pub(crate) profile: ThreadProfile,
    pub(crate) rows: Vec<Row>,
    pub(crate) audit: Option<AuditRow>,
}

/// The result of a decision that is durable.
#[derive(Clone, Debug, Default)]
pub(crate) struct DecisionResult {
    /// The runs that changed.
    pub(crate) runs: Vec<Run>,
    /// The active run afterwards.
    pub(crate) current: Option<Run>,
    pub(crate) agent_state: Option<AgentState>,
    /// With payload references; only if [`CommitExtras::wants_plan`].
    pub(crate) plan: Option<Result<ShownPlan, Fault>>,
    /// The log's last seq afterwards.
    pub(crate) last_seq: i64,
    /// The event changed nothing.
    pub(crate) is_noop: bool,
    /// A cancel waits until the effects are stopped.
    pub(crate) is_cancelling: bool,
}

impl DecisionResult {
    /// The run of a query: the new one with this id, else the one that the query joined.
    pub(crate) fn run_of(&self, new: &RunId) -> Option<&Run> {
        let own = self.runs.iter().find(|run| run.run_id == *new);
        own.or(self.current.as_ref()).or(self.runs.first())
    }

    /// The result of a step that is not committed yet.
    pub(super) fn of(step: &Step, loaded: &LoadedThread, extras: &CommitExtras) -> Self {
        let state = step.rows.iter().find(|row| row.kind == RowKind::AgentState);
        let plan = extras.wants_plan.then(|| plan_of(&*loaded.machine));
        Self {
            runs: step.runs.clone(),
            current: loaded.machine.run().cloned(),
            agent_state: state.and_then(legible),
            plan,
            last_seq: loaded.row.last_seq + step.records.len() as i64,
            is_noop: step.is_noop,
            is_cancelling: step.is_cancelling,
        }
    }
}

/// Why a command failed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CommandError {
    Fault(Fault),
    /// The thread to be created exists; read it.
    Exists,
    /// The thread was deleted.
    Gone,
    /// The idempotency key has an answer already; read it.
    Duplicate,
    /// The scheduled time had its run already.
    NotDue,
    /// The spending caps have no room for the reservations; decide again with the room that is left.
    Capped,
}

impl CommandError {
    /// The store cannot be reached now, or others write the thread again and again: it will be possible later.
    pub(super) fn is_outage(&self) -> bool {
        matches!(self, CommandError::Fault(fault) if fault.code == Code::StoreUnavailable)
    }
}

impl From<Fault> for CommandError {
    fn from(fault: Fault) -> Self {
        CommandError::Fault(fault)
    }
}

impl From<crate::store::Error> for CommandError {
    fn from(error: crate::store::Error) -> Self {
        CommandError::Fault(error.into())
    }
}

impl From<CommandError> for Fault {
    fn from(refusal: CommandError) -> Self {
        match refusal {
            CommandError::Fault(fault) => fault,
            CommandError::Gone => Fault::not_found("thread"),
            CommandError::Exists => Fault::new(Code::ThreadExists, "A thread with this id exists."),
            CommandError::NotDue => Fault::new(Code::RequestInProgress, "This time of the schedule has had its run."),
            CommandError::Capped => Fault::new(Code::SpendCapReached, "The caps on spending leave no room for this."),
            CommandError::Duplicate => {
                Fault::new(Code::RequestInProgress, "The same request was just answered; repeat it.")
            }
        }
    }
}
