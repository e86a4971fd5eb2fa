//! Building commits: of a step, or of a change to the lease or the profile alone. `Actor::write` stores them.

use super::claim::CommitLease;
use super::command::{CommitExtras, DecisionResult};
use super::loaded::LoadedThread;
use crate::domain::Millis;
use crate::domain::run::RunStatus;
use crate::domain::thread::ThreadStatus;
use crate::engine::history::ShownPlan;
use crate::engine::step::Step;
use crate::runtime::audit;
use crate::store::{Commit, LeaseChange, ThreadRow};

impl LoadedThread {
    /// A commit that changes nothing besides the lease; for a new thread it creates the thread.
    pub(super) fn commit_with_lease(&self, lease: LeaseChange, now: Millis) -> Commit {
        let profile = self.new.is_some().then(|| Box::new(self.row.profile.clone()));
        Commit { create: self.new.clone(), profile, ..self.row.commit_with_lease(lease, now) }
    }

    /// The lease change of a thread that has nothing left to do.
    pub(super) fn lease_when_idle(&self) -> LeaseChange {
        if self.row.replica.is_some() { LeaseChange::Release } else { LeaseChange::Keep }
    }

    /// The step's status; that of an idle thread also says whether its last run failed.
    fn status_after(&self, step: &Step) -> ThreadStatus {
        let ended = step.runs.iter().rev().find(|run| run.status.is_terminal());
        match (step.status, ended.map(|run| run.status)) {
            (ThreadStatus::Idle, Some(RunStatus::Failed)) => ThreadStatus::Failed,
            (ThreadStatus::Idle, None) if self.row.status == ThreadStatus::Failed => ThreadStatus::Failed,
            (status, _) => status,
        }
    }

    /// The step as a commit. Moves the head, rows and records out of the step and leaves what is needed after the commit.
    pub(super) fn commit_of(
        &self,
        step: &mut Step,
        lease: &CommitLease,
        extras: &CommitExtras,
        decided: &DecisionResult,
        now: Millis,
    ) -> Commit {
        let mut commit = self.commit_with_lease(lease.change.clone(), now);
        commit.head = step.head.take();
        commit.status = self.status_after(step);
        commit.wake_at = step.wake_at;
        commit.floor = step.floor;
        commit.rows = std::mem::take(&mut step.rows);
        commit.rows.extend(extras.rows.iter().cloned());
        commit.records = std::mem::take(&mut step.records);
        // A title that a person gave stays.
        if let (Some(title), None) = (&step.title, &self.row.profile.title) {
            commit.profile.get_or_insert_with(|| Box::new(self.row.profile.clone())).title = Some(title.clone());
        }
        commit.lookups = extras.lookups.iter().flat_map(|lookups| lookups.of(decided)).collect();
        commit.fire = extras.fire.clone();
        commit.idempotency = extras.idempotency.as_ref().map(|row| row(decided, now));
        commit.audit = audit::rows(&self.row, &commit.records);
        commit.audit.extend(extras.pushes.iter().map(|new| new.audited().row(&self.row, now)));
        if let Some(audited) = &extras.audit {
            let mut audited = audited.clone();
            if let Some(Ok(ShownPlan { plan_version: version, .. })) = &decided.plan {
                audited.detail["planVersion"] = (*version).into();
            }
            commit.audit.push(audited.row(&self.row, now));
        }
        commit
    }
}

impl ThreadRow {
    /// The timer to store so that the owner of the thread sees what is due now as due, even if its clock is behind: a time not
    /// later than those in the row, which the owner may have written. If it has not, it finds the commit by its version
    /// (`replica_watch.rs`).
    pub(super) fn due_to_its_owner(&self, wake_at: Option<Millis>, now: Millis) -> Option<Millis> {
        let passed = |at: Millis| at.min(self.updated_at).min(self.wake_at.unwrap_or(at));
        wake_at.map(|at| if at <= now { passed(at) } else { at })
    }

    /// A commit on this row that changes nothing besides the lease.
    pub(super) fn commit_with_lease(&self, lease: LeaseChange, now: Millis) -> Commit {
        Commit {
            lease,
            wake_at: self.wake_at,
            floor: self.floor,
            last_seq: self.last_seq,
            ..Commit::unchanged(self.pk, self.fence.clone(), now, self.status)
        }
    }
}
