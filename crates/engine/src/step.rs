//! The result of a decision, and the only place where effects are derived.

use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::Millis;
use crate::domain::fault::Fault;
use crate::domain::ids::PayloadId;
use crate::domain::observation::Record;
use crate::domain::run::Run;
use crate::domain::thread::ThreadStatus;
use crate::effect::Effect;
use crate::event::Event;
use crate::{Machine, Stamp, World};

/// One transition, to be committed whole or not at all.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// The core's new head; `None`: unchanged.
    pub head: Option<String>,
    /// Rows that are new or changed, each at most once.
    pub rows: Vec<Row>,
    /// What happened, in order: each becomes the next observation of the thread.
    pub records: Vec<Record>,
    /// Runs whose resource changed, as they are now (they are in `rows` too); clients get a `run` frame for each. If a
    /// run's caller status changed, `caller_status` has the new one and `since` the time of the change; the run is listed
    /// under that status from then on.
    pub runs: Vec<Run>,
    /// Large values made by this step (they are in `rows` too), so that live readers need not fetch them.
    pub payloads: Vec<(PayloadId, Arc<Value>)>,
    /// The thread's status after the step.
    pub status: ThreadStatus,
    /// A new title for the thread.
    pub title: Option<String>,
    /// When the thread must be woken again: `Ready` slots, backoff, expiry. `None`: it waits for no time.
    pub wake_at: Option<Millis>,
    /// Rows with `Keep::UntilFloor` and an `ord` below this are no longer loaded.
    pub floor: i64,
    /// Whether this step is progress, which resets the crash count. Recovery and refusals are not.
    pub progress: bool,
    /// Nothing changed: there is nothing to commit.
    pub is_noop: bool,
    /// A cancel waits until the lease holder has stopped the effects and reports that with `EffectsStopped`.
    pub is_cancelling: bool,
}

/// A part of a thread's state that is written on its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The table of rows that it stands in.
    pub kind: RowKind,
    /// Unique within thread and kind.
    pub id: String,
    /// The order within the kind, as the core numbers it; pages follow it. For items it is the position in the list.
    /// For calls, turns, messages, runs, questions and tasks it is the thread's counter, which only grows. A removed
    /// item has a number of that counter too, because it is compared with [`Step::floor`].
    pub ord: i64,
    /// Whether it is loaded with the thread.
    pub keep: Keep,
    /// JSON text.
    pub body: String,
}

/// Kinds that are read by other code than the core have a documented body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RowKind {
    /// `domain::run::Run`; found by its id across threads. `Keep::Always` while not terminal.
    Run = 1,
    /// `domain::message::ConversationMessage`; paged by `ord`.
    Message = 2,
    /// The core's own todo item.
    Item = 3,
    /// `domain::tool::CallRecord`; `GET /threads/{id}/tool-calls/{callId}`.
    Call = 4,
    /// A turn of an item's loop, the core's own.
    Turn = 5,
    /// `domain::hitl::Suspension`; found by its id across threads; the inbox lists those with `Keep::Always`.
    Suspension = 6,
    /// A delegated task; found by its id across threads.
    Task = 7,
    /// A large value: JSON text; its id is a `PayloadId`.
    Payload = 8,
    /// `domain::thread::AgentState`; the id is empty.
    AgentState = 9,
    /// The progress of an item; another core stores here what has no kind of its own.
    Progress = 10,
    /// `domain::usage::ModelUse`, summed by `GET /usage`; `ord` is the time.
    Usage = 11,
    /// `domain::run::CallerStatus` of the run with this id; `ord` is the time since when. Listed across threads. No
    /// core writes it: it is derived from [`Step::runs`].
    CallerStatus = 12,
    /// `outbox::PushTarget`: a push receiver of a run's changes; `Keep::Always` while the run is not over.
    Push = 13,
    /// `ThreadTerms` of the server: the thread's own retention period, if it has one; the id is empty. No core writes
    /// it.
    Retention = 14,
    /// `domain::usage::ModelUse` of an imported thread: what its model calls used elsewhere. It is exported again, and
    /// counted in no sum. No core writes it.
    ImportedUsage = 15,
    /// How much of the run with this id was sent to a collector of traces; `Keep::Always` until the run is over. No
    /// core writes it.
    Traced = 16,
    /// The thread's next run waits for admission; `ord` is the time since when, 0: it does not wait. The id is empty.
    WaitsToBegin = 17,
    /// Somebody who wrote instructions in the thread's `config`; the id is the name, `ord` the time. No core writes it.
    PromptWriter = 18,
}

impl RowKind {
    /// In the order of their codes.
    pub const ALL: [RowKind; 18] = [
        RowKind::Run,
        RowKind::Message,
        RowKind::Item,
        RowKind::Call,
        RowKind::Turn,
        RowKind::Suspension,
        RowKind::Task,
        RowKind::Payload,
        RowKind::AgentState,
        RowKind::Progress,
        RowKind::Usage,
        RowKind::CallerStatus,
        RowKind::Push,
        RowKind::Retention,
        RowKind::ImportedUsage,
        RowKind::Traced,
        RowKind::WaitsToBegin,
        RowKind::PromptWriter,
    ];

    /// The number that databases store.
    pub fn code(self) -> i16 {
        self as i16
    }
    /// `None`: a kind of a later release.
    pub fn of_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// Whether a row is loaded with its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Keep {
    /// Never: read on demand.
    Never = 0,
    /// Always, until it is written again with another value.
    Always = 1,
    /// While its `ord` is not below the thread's floor.
    UntilFloor = 2,
    /// Never, and conversations leave it out: a message that a rewind took back, or one whose run was cancelled before
    /// it began.
    Superseded = 3,
}

impl Keep {
    /// The number that databases store.
    pub fn code(self) -> i16 {
        self as i16
    }
    /// `None`: a value of a later release.
    pub fn of_code(code: i16) -> Option<Self> {
        [Keep::Never, Keep::Always, Keep::UntilFloor, Keep::Superseded].into_iter().find(|keep| keep.code() == code)
    }
}

impl Step {
    /// Adds a row with the caller status of each run whose status changed at `now`.
    fn list_runs(&mut self, now: Millis) {
        let moved = self.runs.iter().filter(|run| run.since == now);
        self.rows.extend(moved.map(|run| Row {
            kind: RowKind::CallerStatus,
            id: run.run_id.to_string(),
            ord: run.since,
            keep: Keep::Never,
            body: serde_json::to_string(&run.caller_status).expect("a status is a word"),
        }));
    }

    /// Merges this step and the one that was decided right after it into one transition: where both write, the later
    /// one counts.
    #[must_use]
    pub fn then(mut self, next: Step) -> Step {
        let is_cancelling = self.is_cancelling || next.is_cancelling;
        if self.is_noop {
            return Step { is_cancelling, ..next };
        }
        if next.is_noop {
            return Step { is_cancelling, ..self };
        }
        let later: HashSet<(RowKind, &str)> = next.rows.iter().map(|row| (row.kind, row.id.as_str())).collect();
        self.rows.retain(|row| !later.contains(&(row.kind, row.id.as_str())));
        self.rows.extend(next.rows);
        self.runs.retain(|run| next.runs.iter().all(|later| later.run_id != run.run_id));
        self.runs.extend(next.runs);
        self.records.extend(next.records);
        self.payloads.extend(next.payloads);
        Step {
            head: next.head.or(self.head),
            rows: self.rows,
            records: self.records,
            runs: self.runs,
            payloads: self.payloads,
            status: next.status,
            title: next.title.or(self.title),
            wake_at: next.wake_at,
            floor: next.floor,
            progress: self.progress || next.progress,
            is_noop: false,
            is_cancelling,
        }
    }

    /// Nothing changes: a late answer, a wake-up with nothing due.
    pub fn nothing() -> Self {
        Self { is_noop: true, ..Self::default() }
    }
}

/// Lets the machine decide, and adds the rows with the caller status of the runs that changed: no core writes those.
pub fn decide(machine: &mut dyn Machine, world: &World<'_>, stamp: Stamp, event: Event) -> Result<Step, Fault> {
    let mut step = machine.decide(world, stamp, event)?;
    step.list_runs(stamp.now);
    Ok(step)
}

/// What is left to do with effects after a commit.
pub struct EffectChanges<'a> {
    /// To abort: running before and not any more.
    pub stopped: Vec<&'a Effect>,
    /// To start: running now and not before.
    pub started: Vec<Effect>,
}

/// `before` is `machine.running()` from before the decision.
pub fn effect_changes<'a>(before: &'a [Effect], machine: &dyn Machine) -> EffectChanges<'a> {
    let now = machine.running();
    let stopped = before.iter().filter(|effect| !now.contains(effect)).collect();
    let started = now.into_iter().filter(|effect| !before.contains(effect)).collect();
    EffectChanges { stopped, started }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, body: &str) -> Row {
        Row { kind: RowKind::Item, id: id.to_owned(), ord: 1, keep: Keep::Always, body: body.to_owned() }
    }

    #[test]
    fn of_two_steps_the_later_counts_where_both_write() {
        let first = Step {
            head: Some("1".to_owned()),
            rows: vec![row("a", "1"), row("b", "1")],
            title: Some("T".to_owned()),
            wake_at: Some(5),
            progress: true,
            ..Step::default()
        };
        let second =
            Step { rows: vec![row("b", "2"), row("c", "2")], status: ThreadStatus::Running, ..Step::default() };
        let both = first.clone().then(second.clone());
        assert_eq!(both.rows, [row("a", "1"), row("b", "2"), row("c", "2")]);
        assert_eq!((both.head.as_deref(), both.title.as_deref(), both.wake_at), (Some("1"), Some("T"), None));
        assert_eq!((both.status, both.progress, both.is_noop), (ThreadStatus::Running, true, false));
        assert_eq!(first.clone().then(Step::nothing()).rows, first.rows, "nothing changes nothing");
        assert_eq!(Step::nothing().then(second.clone()).rows, second.rows);
        let waits = Step { is_cancelling: true, ..Step::nothing() };
        for step in [Step::nothing().then(waits.clone()), waits.then(second)] {
            assert!(step.is_cancelling, "a cancel goes on waiting for its effects to be stopped");
        }
    }
}
