//! What a thread's task is told, and what it answers.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::oneshot;

use super::ask::Idempotent;
use super::loaded::LoadedThread;
use crate::domain::Millis;
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::TenantPk;
use crate::domain::run::Run;
use crate::domain::thread::{AgentState, ThreadProfile};
use crate::engine::event::Event;
use crate::engine::step::{Row, RowKind, Step};
use crate::outbox::PushTarget;
use crate::store::{IdempotencyRow, NewThread};

pub(super) type Reply<T> = oneshot::Sender<Result<T, Refusal>>;

pub(super) enum Command {
    /// Somebody's decision: decided, committed, published, then answered.
    Decide { event: Arc<Event>, extras: Box<CommitExtras>, reply: Reply<Decided> },
    /// A merge patch of the profile.
    Patch { patch: Value, by: Caller, reply: Reply<ThreadProfile> },
    /// A row that no decision brings: who is told of what happens.
    Keep { row: Row, reply: Reply<()> },
    /// Stops everything and erases the thread.
    Delete { by: String, reply: Reply<()> },
    /// Look after the thread: a timer is due, something is ready, nobody owns it, or it was erased elsewhere. Answered when
    /// that is committed.
    Wake { reply: Reply<()> },
}

/// What is committed beside the event's own step.
#[derive(Default)]
pub(super) struct CommitExtras {
    /// The thread is to be created by this commit.
    pub(super) create: Option<(NewThread, ThreadProfile)>,
    pub(super) kept: Option<StoredResponse>,
    /// Who is told of the run that it begins or goes on with.
    pub(super) pushes: Vec<PushTarget>,
    /// Who did what, for the audit.
    pub(super) audit: Option<(String, &'static str, Value)>,
    /// Whether the answer shows the plan.
    pub(super) wants_plan: bool,
}

/// The answer to be stored under an `Idempotency-Key`, made from what was decided.
pub(super) struct StoredResponse {
    pub(super) tenant: TenantPk,
    pub(super) key: Idempotent,
    #[expect(clippy::type_complexity, reason = "status, body, location")]
    pub(super) answer: Box<dyn Fn(&Decided) -> (u16, String, Option<String>) + Send + Sync>,
}

impl StoredResponse {
    pub(super) fn row(&self, decided: &Decided, now: Millis) -> IdempotencyRow {
        let (status, body, location) = (self.answer)(decided);
        let Idempotent { scope, key, fingerprint } = self.key.clone();
        IdempotencyRow { tenant: self.tenant, scope, key, fingerprint, status, body, location, created_at: now }
    }
}

/// What came of a decision; all of it is durable.
#[derive(Clone, Debug, Default)]
pub(super) struct Decided {
    /// The runs that changed.
    pub(super) runs: Vec<Run>,
    /// The active run afterwards.
    pub(super) current: Option<Run>,
    pub(super) agent_state: Option<AgentState>,
    /// The todo list and its version, with payload references.
    pub(super) plan: Option<(Value, i64)>,
    /// The log's last seq afterwards.
    pub(super) last_seq: i64,
    /// Nothing changed: it had been so before.
    pub(super) is_noop: bool,
    /// A cancel waits until the effects are stopped.
    pub(super) stop_effects: bool,
}

impl Decided {
    /// What a step comes to, before it is committed.
    pub(super) fn of(step: &Step, loaded: &LoadedThread, extras: &CommitExtras) -> Self {
        let state = step.rows.iter().find(|row| row.kind == RowKind::AgentState);
        let plan = extras.wants_plan.then(|| {
            let mut view = loaded.machine.view();
            (view["todoList"].take(), view["planVersion"].as_i64().unwrap_or(0))
        });
        Self {
            runs: step.runs.clone(),
            current: loaded.machine.run().cloned(),
            agent_state: state.and_then(|row| serde_json::from_str(&row.body).ok()),
            plan,
            last_seq: loaded.row.last_seq + step.records.len() as i64,
            is_noop: step.is_noop,
            stop_effects: step.stop_effects,
        }
    }
}

/// Why a thread's task did not do it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Refusal {
    Fault(Fault),
    /// The thread to be created exists; look it up.
    Exists,
    /// The thread is gone; look it up.
    Gone,
    /// The key has an answer; look it up.
    Duplicate,
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
            Refusal::Duplicate => Fault::new(Code::RequestInProgress, "The same request was just answered; repeat it."),
        }
    }
}
