//! Ends a run from outside: cancel, interrupt, quarantine. Running slots are stopped first; calls that never started
//! are skipped.

use crate::domain::actor::ServerActor;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::RunId;
use crate::domain::model;
use crate::domain::run::{RunError, RunStatus};
use crate::pes::run::{end_early, finish};
use crate::pes::settle::stop;
use crate::pes::state::{Cancel, EarlyEnd, UnreadableParts};
use crate::pes::tx::{EventOutcome, HandlerResult, Tx};
use crate::step::{Keep, Row};

/// The first phase of a cancel: from here on nothing starts. Without `Running` slots the second phase follows at once.
pub(crate) fn cancel(tx: &mut Tx<'_>, run: Option<RunId>, by: &str) -> HandlerResult {
    let is_active = tx.state.run.as_ref().is_some_and(|active| run.as_ref().is_none_or(|id| active.run_id == *id));
    match &run {
        Some(id) if tx.state.queued.contains_key(id) => finish::end_queued(tx, id, RunStatus::Cancelled, None),
        Some(_) if !is_active => {
            return Err(Fault::new(Code::RunFinished, "The run is over; there is nothing to cancel."));
        }
        Some(_) => {}
        None => {
            for id in tx.state.head.queue.clone() {
                finish::end_queued(tx, &id, RunStatus::Cancelled, None);
            }
        }
    }
    if is_active {
        mark_cancelled(tx, by, "the run was cancelled");
    }
    Ok(EventOutcome::Applied)
}

/// Another request takes the thread over: it is the first of the queue already.
pub(crate) fn interrupt(tx: &mut Tx<'_>) {
    mark_cancelled(tx, ServerActor::Interrupt.as_str(), "another request interrupted the run");
}

fn mark_cancelled(tx: &mut Tx<'_>, by: &str, reason: &str) {
    let active = tx.active();
    if active.cancel.as_ref().is_none_or(|cancel| cancel.ends != EarlyEnd::Cancelled) {
        active.cancel = Some(Cancel { by: by.to_owned(), reason: reason.to_owned(), ends: EarlyEnd::Cancelled });
        tx.mark_run_changed();
    }
}

/// The lease holder has stopped every effect of a run that is being cancelled.
pub(crate) fn effects_stopped(tx: &mut Tx<'_>) -> HandlerResult {
    if !tx.state.is_cancelling() {
        return Ok(EventOutcome::Ignored);
    }
    end_early::complete_cancel(tx);
    Ok(EventOutcome::Applied)
}

/// The thread crashed repeatedly: its current and queued runs fail, and it accepts no others until it is released.
pub(crate) fn quarantine(tx: &mut Tx<'_>, crashes: u32) -> HandlerResult {
    if tx.state.run.is_none() && tx.state.head.queue.is_empty() {
        return Ok(EventOutcome::Ignored);
    }
    let times = if crashes == 1 { "once".to_owned() } else { format!("{crashes} times") };
    let message = format!("The thread crashed {times} without progress and was stopped.");
    set_aside(tx, Code::Quarantined, message);
    Ok(EventOutcome::Applied)
}

/// The head or rows cannot be read: the runs fail with an error that names them, and the rows are not loaded any more,
/// so that the thread can be used again. They stay in the store unchanged, for inspection; the head and the rows of
/// runs are written anew.
pub(crate) fn set_unreadable_aside(tx: &mut Tx<'_>) -> HandlerResult {
    let UnreadableParts { names, rows } = std::mem::take(&mut tx.state.unreadable);
    if names.is_empty() {
        return Ok(EventOutcome::Ignored);
    }
    rows.into_iter().for_each(|row| tx.written.put(Row { keep: Keep::Never, ..row }));
    let message = format!("What is stored of this thread cannot be read any more: {}.", names.join(", "));
    set_aside(tx, Code::UnreadableState, message);
    Ok(EventOutcome::Applied)
}

fn set_aside(tx: &mut Tx<'_>, code: Code, message: String) {
    let error = RunError { code, message: message.clone(), phase: model::Phase::Execution };
    // The active run ends first, and no queued run starts.
    let queue = std::mem::take(&mut tx.state.head.queue);
    if tx.state.run.is_some() {
        stop::everything_stored(tx, "the thread was quarantined");
        finish::fail(tx, code, message, model::Phase::Execution);
    }
    for id in queue {
        finish::end_queued(tx, &id, RunStatus::Failed, Some(error.clone()));
    }
    tx.state.head.is_quarantined = true;
    tx.mark_head_changed();
    tx.is_progress = false;
}

/// A person releases a quarantined thread.
pub(crate) fn release(tx: &mut Tx<'_>) -> HandlerResult {
    if !std::mem::take(&mut tx.state.head.is_quarantined) {
        return Ok(EventOutcome::Ignored);
    }
    tx.mark_head_changed();
    tx.is_progress = false;
    Ok(EventOutcome::Applied)
}
