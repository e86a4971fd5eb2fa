//! A refinement: the planner is asked about the rest of the plan in the middle of a run. A refinement that fails leaves
//! the plan as it is. Messages that people sent meanwhile are shown to one more refinement; if that fails too, the
//! run's result says so.

use crate::domain::fault::Code;
use crate::domain::model;
use crate::domain::run::RunError;
use crate::pes::plan::review;
use crate::pes::state::{ModelCall, Replan, RunPhase, SentBack};
use crate::pes::tx::Tx;

/// After this many failed refinements a message is given up.
const MAX_FAILED_REFINEMENTS: u32 = 2;

/// Begins a refinement in the middle of a run.
pub(crate) fn begin(tx: &mut Tx<'_>) {
    review::withdraw(tx, "the plan is being made anew");
    tx.state.head.phase = RunPhase::Refining;
    let shown = tx.state.head.plan_version;
    let active = tx.active();
    for steer in active.steers.iter_mut().filter(|steer| !steer.shown) {
        (steer.shown, steer.open) = (true, true);
    }
    // A person who steers the run after a failure wants it to continue.
    active.is_stopped = false;
    active.replan = if active.replan == Replan::Due { Replan::Done } else { active.replan };
    if active.review.sent_back == SentBack::Due {
        active.review.sent_back = SentBack::Told;
    }
    active.model = Some(ModelCall::ready(1, shown));
}

/// Ends the refinement, whether it succeeded or not.
pub(crate) fn end(tx: &mut Tx<'_>) {
    tx.state.head.phase = RunPhase::Executing;
    let active = tx.active();
    active.is_planned = true;
    if active.review.sent_back == SentBack::Told {
        active.review.sent_back = SentBack::No;
    }
}

/// The planner has seen its notes and the steering messages. Notes about failures that came meanwhile stay for the next
/// refinement.
pub(crate) fn mark_planner_informed(tx: &mut Tx<'_>) {
    let active = tx.active();
    active.steers.iter_mut().for_each(|steer| steer.open &= !steer.shown);
    active.unconsidered = None;
    if active.replan != Replan::Due {
        active.notes.clear();
    }
}

/// A refinement in the middle of a run failed: the plan stays as it is. The messages that it was to consider are due
/// once more; those for which that has happened already are reported as a failure in the run's result.
pub(crate) fn on_failed(tx: &mut Tx<'_>, code: Code, message: &str) {
    tx.record_error(model::Phase::Planning, code.as_str(), message, false, None);
    let active = tx.active();
    for steer in active.steers.iter_mut().filter(|steer| steer.open) {
        steer.failures += 1;
        steer.shown = steer.failures >= MAX_FAILED_REFINEMENTS;
        steer.open = steer.shown;
    }
    let is_due = active.steers.iter().any(|steer| steer.failures > 0 && !steer.shown);
    if active.steers.iter().any(|steer| steer.open) {
        let message = format!("What was said meanwhile was not taken into account: {message}");
        active.unconsidered = Some(RunError { code, message, phase: model::Phase::Planning });
    }
    // The planner still has to be told that a person sent the plan back.
    let is_sent_back = is_due && active.review.sent_back == SentBack::Told;
    end(tx);
    if is_sent_back {
        tx.active().review.sent_back = SentBack::Due;
    }
}
