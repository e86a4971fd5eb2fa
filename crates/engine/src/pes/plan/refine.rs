//! A refinement: the planner is asked about the rest of the plan in the middle of a run.

use crate::domain::fault::Code;
use crate::domain::model;
use crate::pes::plan::review;
use crate::pes::state::{ModelCall, Phase, Replan, SentBack};
use crate::pes::tx::Tx;

/// The planner is asked about the rest of the plan, in the middle of a run.
pub(crate) fn begin(tx: &mut Tx<'_>) {
    review::withdraw(tx, "the plan is being made anew");
    tx.state.head.phase = Phase::Refining;
    let shown = tx.state.head.plan_version;
    let active = tx.active();
    active.steers.iter_mut().for_each(|steer| steer.shown = true);
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

/// The planner has read its notes. What failed meanwhile goes into the prompt of the next refinement.
pub(crate) fn notes_were_shown(tx: &mut Tx<'_>) {
    let active = tx.active();
    if active.replan != Replan::Due {
        active.notes.clear();
    }
}

/// A refinement that failed in the middle of a run leaves the plan as it is.
pub(crate) fn failed(tx: &mut Tx<'_>, code: Code, message: &str) {
    tx.record_error(model::Phase::Planning, code.as_str(), message, false, None);
    end(tx);
}
