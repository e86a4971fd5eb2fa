//! The status of the active run: pure questions about the state.

use crate::domain::ids::ItemId;
use crate::domain::model;
use crate::domain::run::{Run, RunStatus};
use crate::domain::settings::{PlanReview, RunSettings};
use crate::domain::task::ActionSlot;
use crate::domain::thread::ThreadStatus;
use crate::domain::tool::CallStatus;
use crate::pes::state::{Active, Item, ItemLoop, ModelCall, Replan, Review, RunPhase, SentBack, Shape, State};

impl State {
    /// Whether the active run's plan has been made.
    pub(crate) fn is_mid_run(&self) -> bool {
        self.head.active.as_ref().is_some_and(|active| active.is_planned)
    }

    /// Whether the active run is being cancelled, or ended early for another reason.
    pub(crate) fn is_cancelling(&self) -> bool {
        self.head.active.as_ref().is_some_and(|active| active.cancel.is_some())
    }

    /// The open model call of the planner or the synthesizer.
    pub(crate) fn main_call(&self) -> Option<&ModelCall> {
        self.head.active.as_ref()?.model.as_ref()
    }

    /// The phase of a model call of this item, or of no item.
    pub(crate) fn model_phase(&self, item: Option<&ItemId>) -> model::Phase {
        match (item, self.phase()) {
            (Some(_), _) => model::Phase::Execution,
            (None, RunPhase::Synthesizing) => model::Phase::Synthesis,
            (None, RunPhase::Idle | RunPhase::Planning | RunPhase::Refining | RunPhase::Executing) => {
                model::Phase::Planning
            }
        }
    }

    /// Whether a plan review is open: nothing of the plan begins before a person approves it.
    pub(crate) fn is_review_open(&self) -> bool {
        self.review().is_some_and(|review| review.question.is_some())
    }

    /// Whether reviews allow this version of the plan to run.
    pub(crate) fn is_reviewed(&self) -> bool {
        let version = self.head.plan_version;
        self.run_settings().execution.plan_review == PlanReview::Off
            || self.review().is_some_and(|review| review.passed == Some(version))
    }

    /// Items that hold a permit, in list order.
    pub(crate) fn items_with_permit(&self) -> impl Iterator<Item = ItemId> + use<'_> {
        let has_permit = |work: &ItemLoop| work.has_permit;
        let open = self.list.open();
        open.filter(move |item| item.progress.work.as_ref().is_some_and(has_permit)).map(|item| item.def.id.clone())
    }

    pub(crate) fn has_any_permit(&self) -> bool {
        self.items_with_permit().next().is_some()
    }

    /// Whether the planner must be asked again before the next item begins.
    pub(crate) fn is_refinement_due(&self) -> bool {
        let is_due = |active: &Active| {
            let is_steered = active.steers.iter().any(|steer| !steer.shown);
            is_steered || active.replan == Replan::Due || active.review.sent_back == SentBack::Due
        };
        self.shape == Shape::Planned && self.head.active.as_ref().is_some_and(is_due)
    }

    /// Whether anything new may begin: an item, a phase, a slot.
    pub(crate) fn may_begin(&self) -> bool {
        self.head.active.as_ref().is_some_and(|active| active.cancel.is_none() && !active.is_held())
    }

    /// May only be called while a run is active.
    pub(crate) fn active_run(&self) -> &Run {
        self.run.as_ref().expect("only asked for while a run is active")
    }

    /// The settings of the active run. May only be called while a run is active.
    pub(crate) fn run_settings(&self) -> &RunSettings {
        &self.active_run().settings
    }

    /// The state of the review of the active run's plan.
    pub(crate) fn review(&self) -> Option<&Review> {
        self.head.active.as_ref().map(|active| &active.review)
    }

    pub(crate) fn item(&self, id: &ItemId) -> Option<&Item> {
        self.list.get(id)
    }

    /// `Running` if any slot is `Ready` or `Running`; else the run waits for a person, or for an agent. During a pause
    /// only `Running` slots count.
    pub(crate) fn run_status(&self) -> RunStatus {
        let is_held = self.head.active.as_ref().is_some_and(Active::is_held);
        let is_working = if is_held { self.is_any_running() } else { self.is_any_busy() };
        let is_elsewhere = |work: &ItemLoop| self.batch_has(&work.batch, CallStatus::AtPeer);
        if is_working {
            RunStatus::Running
        } else if self.suspensions.is_empty() && self.open_loops().any(is_elsewhere) {
            RunStatus::Waiting
        } else {
            RunStatus::Suspended
        }
    }

    /// Whether something is running, or will be as soon as the lease holder handles the thread.
    pub(crate) fn is_active(&self) -> bool {
        self.run.is_some() && self.run_status() == RunStatus::Running
    }

    /// Whether a slot of the run is `Ready` or `Running`.
    pub(crate) fn is_any_busy(&self) -> bool {
        self.main_call().is_some() || self.open_loops().any(|work| self.is_busy(work))
    }

    /// Whether a slot of the run is `Running`.
    pub(crate) fn is_any_running(&self) -> bool {
        self.main_call().is_some_and(ModelCall::is_running) || self.open_loops().any(|work| self.is_running(work))
    }

    /// Whether a slot of this item is `Running`.
    pub(crate) fn is_running(&self, work: &ItemLoop) -> bool {
        let is_sent = |call| matches!(self.send_slot(call), Some(ActionSlot::Running { .. }));
        work.model.as_ref().is_some_and(|model| model.is_running())
            || self.batch_has(&work.batch, CallStatus::Running)
            || work.batch.iter().any(is_sent)
    }

    /// Whether the thread's next run waits for admission.
    pub(crate) fn waits_to_begin(&self) -> bool {
        self.run.is_none() && !self.head.queue.is_empty()
    }

    /// The open loops, in list order.
    pub(crate) fn open_loops(&self) -> impl Iterator<Item = &ItemLoop> {
        self.list.open().filter_map(|item| item.progress.work.as_ref())
    }

    /// The item's loop, if it is open.
    pub(crate) fn loop_of(&self, item: &ItemId) -> Option<&ItemLoop> {
        self.item(item)?.progress.work.as_ref()
    }

    pub(crate) fn phase(&self) -> RunPhase {
        self.head.phase
    }
}

/// The thread's status, as it is listed.
pub(crate) fn thread_status(state: &State) -> ThreadStatus {
    if state.waits_to_begin() { ThreadStatus::Waiting } else { status_of(state) }
}

/// The status of its active run.
pub(crate) fn status_of(state: &State) -> ThreadStatus {
    match &state.run {
        Some(run) => ThreadStatus::of_run(run.status),
        None if state.head.is_quarantined => ThreadStatus::Quarantined,
        None => ThreadStatus::Idle,
    }
}
