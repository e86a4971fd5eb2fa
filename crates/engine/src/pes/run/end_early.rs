//! A run ends before its plan is done: cancelled, out of budget, or because its plan was not approved.

use crate::domain::actor::ServerActor;
use crate::domain::fault::Code;
use crate::domain::model;
use crate::domain::run::{RunError, RunStatus};
use crate::pes::plan::review::MAX_REASON_CHARS;
use crate::pes::run::finish;
use crate::pes::settle::stop;
use crate::pes::state::{Cancel, EarlyEnd, text};
use crate::pes::tx::Tx;

/// The second phase of a cancel, once no slot is `Running`, or the lease holder has stopped the effects.
pub(crate) fn complete_cancel(tx: &mut Tx<'_>) {
    let Some(cancel) = tx.active().cancel.clone() else { return };
    end_as(tx, cancel.ends, &cancel.reason);
}

/// Ends the run; if something is `Running`, the lease holder stops it first.
pub(crate) fn end_early(tx: &mut Tx<'_>, ends: EarlyEnd, why: &str) {
    if !tx.state.is_any_running() {
        return end_as(tx, ends, why);
    }
    tx.active().cancel = Some(Cancel { by: ServerActor::Engine.as_str().into(), reason: why.into(), ends });
    tx.mark_run_changed();
}

fn end_as(tx: &mut Tx<'_>, ends: EarlyEnd, why: &str) {
    match ends {
        EarlyEnd::Cancelled => {
            stop::everything(tx, why);
            finish::end(tx, RunStatus::Cancelled, None);
        }
        EarlyEnd::OnBudget => end_on_budget(tx, why),
        EarlyEnd::Rejected => end_rejected(tx, why),
        EarlyEnd::TimedOut => fail_unreviewed(tx, why),
    }
}

/// Ends the run with an account of what was done.
fn end_on_budget(tx: &mut Tx<'_>, why: &str) {
    let message = format!("The run's budget ended it: {why}.");
    let phase = tx.state.model_phase(None);
    let phase = if tx.state.list.is_any_open() { model::Phase::Execution } else { phase };
    stop::everything(tx, "the run's budget is spent");
    finish::answer_with_account(tx, RunError { code: Code::BudgetExceeded, message, phase }, true);
}

/// Ends the run because its plan was rejected.
fn end_rejected(tx: &mut Tx<'_>, why: &str) {
    let message = format!("The plan was rejected: {}.", text::cut(why, MAX_REASON_CHARS).trim_end_matches('.'));
    stop::everything(tx, "the plan was rejected");
    let error = RunError { code: Code::PlanRejected, message, phase: model::Phase::Planning };
    finish::answer_with_account(tx, error, true);
}

/// Fails the run because nobody reviewed its plan in time.
fn fail_unreviewed(tx: &mut Tx<'_>, why: &str) {
    stop::everything(tx, "nobody reviewed the plan in time");
    let message = format!("The plan was not reviewed: {why}.");
    finish::fail(tx, Code::SuspensionTimedOut, message, model::Phase::Planning);
}
