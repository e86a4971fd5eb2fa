//! The commands of an actor's mailbox, and their answers.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::oneshot;

use super::loaded::LoadedThread;
use super::rows::legible;
use super::snapshot::plan_of;
use crate::domain::Millis;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::RunId;
use crate::domain::lookup::LookupKey;
use crate::domain::run::Run;
use crate::domain::thread::{AgentState, ThreadProfile};
use crate::engine::event::Event;
use crate::engine::history::ShownPlan;
use crate::engine::step::{Row, RowKind, Step};
use crate::outbox::PushTarget;
use crate::store::{AuditRow, Fire, IdempotencyRow, NewLookup, NewThread, ThreadRow};

pub(super) type Reply<T> = oneshot::Sender<Result<T, Refusal>>;

pub(super) enum Command {
    /// Somebody's decision: decided, committed, published, then answered.
    Decide { event: Arc<Event>, extras: Box<CommitExtras>, reply: Reply<Decided> },
    /// A change of the profile.
    EditProfile { edit: ProfileEdit, reply: Reply<()> },
    /// Stores a row that no decision writes: a push receiver, how long the thread is kept.
    Keep { row: Row, audit: Option<Audited>, reply: Reply<()> },
    /// Stops everything and erases the thread.
    Delete { by: String, reply: Reply<()> },
    /// Erases the thread if it is at rest and nobody used it since then, on behalf of somebody or because of its age. Answered
    /// with whether it did.
    Expire { before: Millis, by: Option<String>, reply: Reply<bool> },
    /// Look after the thread: a timer is due, something is ready, nobody owns it, or it was erased elsewhere. Answered when
    /// that is committed.
    Wake { reply: Reply<()> },
}

/// Who did what, and what else the audit says of it.
pub(crate) type Audited = (String, &'static str, Value);

/// What is committed beside the event's own step.
#[derive(Default)]
pub(crate) struct CommitExtras {
    /// The thread is to be created by this commit.
    pub(crate) create: Option<(NewThread, ThreadProfile)>,
    pub(crate) kept: Option<AnswerToKeep>,
    /// What the run that is asked for is to be found under.
    pub(crate) lookups: Option<LookupsToKeep>,
    /// The push receivers of the run that it begins or continues.
    pub(crate) pushes: Vec<PushTarget>,
    /// The time of a schedule that the run is for.
    pub(crate) fire: Option<Fire>,
    /// Who did what, for the audit.
    pub(crate) audit: Option<Audited>,
    /// Whether the answer shows the plan.
    pub(crate) wants_plan: bool,
}

/// Keys of a query. It may be another run's that it joins.
pub(crate) struct LookupsToKeep {
    pub(crate) asked: RunId,
    pub(crate) keys: Vec<LookupKey>,
}

impl LookupsToKeep {
    pub(super) fn of(&self, decided: &Decided) -> Vec<NewLookup> {
        let Some(run) = decided.run_of(&self.asked) else { return Vec::new() };
        let new = |key: &LookupKey| NewLookup { key: key.clone(), run: run.run_id.clone() };
        self.keys.iter().map(new).collect()
    }
}

/// The answer to be stored under an `Idempotency-Key`, made from what was decided, and when.
pub(crate) type AnswerToKeep = Box<dyn Fn(&Decided, Millis) -> IdempotencyRow + Send + Sync>;

/// The profile after a change of the thread as it is stored, and the audit's line about it; or why it is refused.
pub(crate) type ProfileEdit =
    Box<dyn Fn(&ThreadRow, Millis) -> Result<(ThreadProfile, Option<AuditRow>), Fault> + Send + Sync>;

/// What came of a decision; all of it is durable.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decided {
    /// The runs that changed.
    pub(crate) runs: Vec<Run>,
    /// The active run afterwards.
    pub(crate) current: Option<Run>,
    pub(crate) agent_state: Option<AgentState>,
    /// With payload references, if it was wanted.
    pub(crate) plan: Option<Result<ShownPlan, Fault>>,
    /// The log's last seq afterwards.
    pub(crate) last_seq: i64,
    /// Nothing changed: it had been so before.
    pub(crate) is_noop: bool,
    /// A cancel waits until the effects are stopped.
    pub(crate) stop_effects: bool,
}

impl Decided {
    /// The run that came of a query: its own, else the one that it joined.
    pub(crate) fn run_of(&self, asked: &RunId) -> Option<&Run> {
        let own = self.runs.iter().find(|moved| moved.run_id == *asked);
        own.or(self.current.as_ref()).or(self.runs.first())
    }

    /// What a step comes to, before it is committed.
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
            stop_effects: step.stop_effects,
        }
    }
}

/// Why a thread's task did not do it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Refusal {
    Fault(Fault),
    /// The thread to be created exists; look it up.
    Exists,
    /// The thread is gone; look it up.
    Gone,
    /// The key has an answer; look it up.
    Duplicate,
    /// The time of the schedule has had its run; look it up.
    NotDue,
    /// The caps on spending have no room for what would be reserved; decide again with what there is.
    Capped,
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Refusal::Fault(fault)
    }
}

impl From<crate::store::Error> for Refusal {
    fn from(error: crate::store::Error) -> Self {
        Refusal::Fault(error.into())
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Fault(fault) => fault,
            Refusal::Gone => Fault::not_found("thread"),
            Refusal::Exists => Fault::new(Code::ThreadExists, "A thread with this id exists."),
            Refusal::NotDue => Fault::new(Code::RequestInProgress, "This time of the schedule has had its run."),
            Refusal::Capped => Fault::new(Code::SpendCapReached, "The caps on spending leave no room for this."),
            Refusal::Duplicate => Fault::new(Code::RequestInProgress, "The same request was just answered; repeat it."),
        }
    }
}
