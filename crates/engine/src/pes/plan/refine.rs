//! A refinement: the planner is asked about the rest of the plan in the middle of a run. One that fails leaves the plan as
//! it is; what people said meanwhile is shown to another one, and if that fails too, the run's result says so.

use crate::domain::fault::Code;
use crate::domain::model;
use crate::domain::run::RunError;
use crate::pes::plan::review;
use crate::pes::state::{ModelCall, Phase, Replan, SentBack};
use crate::pes::tx::Tx;

/// How many refinements may fail before a message is given up.
const FAILURES: u32 = 2;

/// The planner is asked about the rest of the plan, in the middle of a run.
pub(crate) fn begin(tx: &mut Tx<'_>) {
    review::withdraw(tx, "the plan is being made anew");
    tx.state.head.phase = Phase::Refining;
    let shown = tx.state.head.plan_version;
    let active = tx.active();
    for steer in active.steers.iter_mut().filter(|steer| !steer.shown) {
        (steer.shown, steer.open) = (true, true);
    }
    // Whoever steers after a failure wants it to go on.
    active.stopped = false;
    active.replan = if active.replan == Replan::Due { Replan::Done } else { active.replan };
    if active.review.sent_back == SentBack::Due {
        active.review.sent_back = SentBack::Told;
    }
    active.model = Some(ModelCall::ready(1, shown));
}

/// The refinement is over, whatever came of it.
pub(crate) fn end(tx: &mut Tx<'_>) {
    tx.state.head.phase = Phase::Executing;
    let active = tx.active();
    active.planned = true;
    if active.review.sent_back == SentBack::Told {
        active.review.sent_back = SentBack::No;
    }
}

/// The planner has read its notes, and what people said. What failed meanwhile goes into the prompt of the next
/// refinement.
pub(crate) fn planner_was_told(tx: &mut Tx<'_>) {
    let active = tx.active();
    active.steers.iter_mut().for_each(|steer| steer.open &= !steer.shown);
    active.unheard = None;
    if active.replan != Replan::Due {
        active.notes.clear();
    }
}

/// A refinement that failed in the middle of a run leaves the plan as it is. The messages that it was to take into account
/// are due again once; those that were so before stand in the result as the failure.
pub(crate) fn failed(tx: &mut Tx<'_>, code: Code, message: &str) {
    tx.record_error(model::Phase::Planning, code.as_str(), message, false, None);
    let active = tx.active();
    for steer in active.steers.iter_mut().filter(|steer| steer.open) {
        steer.failures += 1;
        steer.shown = steer.failures >= FAILURES;
        steer.open = steer.shown;
    }
    let is_due = active.steers.iter().any(|steer| steer.failures > 0 && !steer.shown);
    if active.steers.iter().any(|steer| steer.open) {
        let message = format!("What was said meanwhile was not taken into account: {message}");
        active.unheard = Some(RunError { code, message, phase: model::Phase::Planning });
    }
    // Whoever sent the plan back is not forgotten meanwhile.
    let is_sent_back = is_due && active.review.sent_back == SentBack::Told;
    end(tx);
    if is_sent_back {
        tx.active().review.sent_back = SentBack::Due;
    }
}
