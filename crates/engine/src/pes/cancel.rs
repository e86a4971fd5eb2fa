//! Ending a run from outside: cancel, interrupt, quarantine. What runs is stopped first; what never started is skipped.

use super::state::State;
use super::{budget, finish, item, review, suspend};
use serde::{Deserialize, Serialize};

use super::reply::interrupted;
use super::state::{Cancel, ModelSlot};
use super::tx::{Handled, Taken, Tx};
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{Decision, SuspensionKind};
use crate::domain::ids::{CallId, ItemId, RunId, SuspensionId};
use crate::domain::model::{self, FailureKind};
use crate::domain::run::{RunError, RunStatus};
use crate::domain::tool::CallStatus;
use crate::step::{Keep, Row};

/// What a run ends as that ends before its plan is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Ends {
    /// Somebody asked for that.
    #[default]
    Cancelled,
    /// Its budget is spent.
    OnBudget,
    /// A person rejected its plan.
    Rejected,
    /// Nobody reviewed its plan in time.
    TimedOut,
}

impl Ends {
    pub fn is_cancelled(&self) -> bool {
        *self == Ends::Cancelled
    }
}

/// The first phase: from here on nothing starts. Without `Running` slots the second follows at once.
pub(super) fn cancel(tx: &mut Tx<'_>, run: Option<RunId>, by: &str) -> Handled {
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
        mark(tx, by, "the run was cancelled");
    }
    Ok(Taken::Yes)
}

/// Another request takes the thread: it stands first in the queue already.
pub(super) fn interrupt(tx: &mut Tx<'_>) {
    mark(tx, "interrupt", "another request interrupted the run");
}

fn mark(tx: &mut Tx<'_>, by: &str, reason: &str) {
    let active = tx.active();
    if active.cancel.as_ref().is_none_or(|cancel| cancel.ends != Ends::Cancelled) {
        active.cancel = Some(Cancel { by: by.to_owned(), reason: reason.to_owned(), ends: Ends::Cancelled });
        tx.run_changed();
    }
}

/// The second phase, once nothing is `Running`, or the holder has stopped it.
pub(super) fn complete(tx: &mut Tx<'_>) {
    let Some(cancel) = tx.active().cancel.clone() else { return };
    end_as(tx, cancel.ends, &cancel.reason);
}

/// The run ends by itself; what runs of it is stopped first, by whoever holds it.
pub(super) fn end_early(tx: &mut Tx<'_>, ends: Ends, why: &str) {
    if !tx.state.is_any_running() {
        return end_as(tx, ends, why);
    }
    tx.active().cancel = Some(Cancel { by: "engine".into(), reason: why.into(), ends });
    tx.run_changed();
}

fn end_as(tx: &mut Tx<'_>, ends: Ends, why: &str) {
    match ends {
        Ends::Cancelled => {
            stop_everything(tx, why);
            finish::end(tx, RunStatus::Cancelled, None);
        }
        Ends::OnBudget => budget::end_on_budget(tx, why),
        Ends::Rejected => review::end_rejected(tx, why),
        Ends::TimedOut => review::fail_unreviewed(tx, why),
    }
}

pub(super) fn effects_stopped(tx: &mut Tx<'_>) -> Handled {
    let is_cancelled = tx.state.head.active.as_ref().is_some_and(|active| active.cancel.is_some());
    if !is_cancelled {
        return Ok(Taken::No);
    }
    complete(tx);
    Ok(Taken::Yes)
}

/// The thread crashed again and again: its current and queued runs fail, and it takes no others until it is released.
pub(super) fn quarantine(tx: &mut Tx<'_>, crashes: u32) -> Handled {
    if tx.state.run.is_none() && tx.state.head.queue.is_empty() {
        return Ok(Taken::No);
    }
    let message = format!("The thread crashed {crashes} times without progress and was stopped.");
    set_aside(tx, Code::Quarantined, message);
    Ok(Taken::Yes)
}

/// Rows cannot be read: the runs fail by that name, and the rows are not loaded any more, so that the thread can be
/// used again. They stay as they are, for whoever wants to know what they held.
pub(super) fn set_unreadable_aside(tx: &mut Tx<'_>) -> Handled {
    let rows = std::mem::take(&mut tx.state.unreadable);
    if rows.is_empty() {
        return Ok(Taken::No);
    }
    let named: Vec<String> = rows.iter().map(|row| format!("{:?} {}", row.kind, row.id)).collect();
    tx.rows.extend(rows.into_iter().map(|row| Row { keep: Keep::Never, ..row }));
    let message = format!("What is stored of this thread cannot be read any more: {}.", named.join(", "));
    set_aside(tx, Code::UnreadableState, message);
    Ok(Taken::Yes)
}

fn set_aside(tx: &mut Tx<'_>, code: Code, message: String) {
    let error = RunError { code, message: message.clone(), phase: model::Phase::Execution };
    for id in tx.state.head.queue.clone() {
        finish::end_queued(tx, &id, RunStatus::Failed, Some(error.clone()));
    }
    if tx.state.run.is_some() {
        stop_everything(tx, "the thread was quarantined");
        finish::fail(tx, code, message, model::Phase::Execution);
    }
    tx.state.head.quarantined = true;
    tx.is_progress = false;
}

pub(super) fn release(tx: &mut Tx<'_>) -> Handled {
    let was_quarantined = std::mem::take(&mut tx.state.head.quarantined);
    Ok(if was_quarantined { Taken::Yes } else { Taken::No })
}

/// Closes every slot, question and item of the active run. A pause stays open until the run has ended.
pub(super) fn stop_everything(tx: &mut Tx<'_>, reason: &str) {
    stop_model(tx, None);
    let open: Vec<ItemId> = tx.state.list.open().map(|item| item.def.id.clone()).collect();
    for id in &open {
        stop_model(tx, Some(id));
        for call in open_calls(tx.state, id) {
            item::end_open_call(tx, &call, reason);
        }
        item::cancel(tx, id, reason.to_owned());
    }
    let questions = tx.state.suspensions.values().filter(|open| open.kind != SuspensionKind::Pause);
    for id in questions.map(|open| open.suspension_id.clone()).collect::<Vec<SuspensionId>>() {
        suspend::close(tx, &id, Decision::Cancelled, "engine", Some(reason.to_owned()));
    }
    item::cancel_pending(tx, reason);
}

fn open_calls(state: &State, item: &ItemId) -> Vec<CallId> {
    let work = state.item(item).and_then(|item| item.progress.work.as_ref());
    let batch = work.map(|work| work.batch.clone()).unwrap_or_default();
    batch.into_iter().filter(|call| state.call_status(call) != Some(CallStatus::Done)).collect()
}

fn stop_model(tx: &mut Tx<'_>, item: Option<&ItemId>) {
    let call = match item {
        Some(item) => tx.change_loop(item, |work| work.model.take()).flatten(),
        None => tx.active().model.take(),
    };
    if let Some(ModelSlot::Running { stream, .. }) = call.map(|call| call.slot) {
        let failure = model::ModelFailure { kind: FailureKind::Interrupted, ..interrupted("the run was stopped") };
        tx.record_stream_error(&stream, item, &failure, None);
    }
}
