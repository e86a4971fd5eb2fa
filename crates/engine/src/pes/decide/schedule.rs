//! After every event: starts everything that may start now, in the same transition.

use crate::domain::ids::ItemId;
use crate::domain::tool::CallStatus;
use crate::pes::peers::send;
use crate::pes::people::question;
use crate::pes::plan::{refine, review};
use crate::pes::run::{after_items, budget, end_early, simple};
use crate::pes::settle::item;
use crate::pes::state::{RunPhase, State, funds};
use crate::pes::tx::Tx;
use crate::pes::work::{permits, start};

/// Starts whatever may start, until nothing more may; ends a run that is cancelled or out of budget.
pub(crate) fn run_to_quiescence(tx: &mut Tx<'_>) {
    question::deliver_replies(tx);
    while tx.state.run.is_some() {
        if is_cancel_complete(tx.state) {
            end_early::complete_cancel(tx);
        } else if funds::is_spent(tx.state, tx.world, tx.stamp.now) {
            budget::on_spent(tx);
        } else if !start_ready(tx) && !funds::is_spent(tx.state, tx.world, tx.stamp.now) {
            break;
        }
    }
    send::start_due_task_actions(tx);
    mark_waiting_items(tx);
}

/// Starts what may start. `true`: more may start now.
fn start_ready(tx: &mut Tx<'_>) -> bool {
    match tx.state.phase() {
        RunPhase::Idle => false,
        RunPhase::Planning | RunPhase::Refining | RunPhase::Synthesizing => {
            start::start_main(tx);
            false
        }
        RunPhase::Executing => {
            review::ask_if_wanted(tx);
            tx.state.may_begin() && execute(tx)
        }
    }
}

/// A cancel completes when nothing of the run is `Running` any more.
fn is_cancel_complete(state: &State) -> bool {
    state.is_cancelling() && !state.is_any_running()
}

/// Starts what the plan allows. `true`: the phase changed, or a call was answered.
fn execute(tx: &mut Tx<'_>) -> bool {
    permits::release_idle(tx);
    if tx.state.is_refinement_due() {
        if !tx.state.has_any_permit() {
            refine::begin(tx);
            return true;
        }
    } else {
        while let Some(id) = permits::next_item(tx.state) {
            // A failure may change what is next: decide from the beginning.
            if !permits::grant(tx, &id) {
                return true;
            }
        }
    }
    let active: Vec<ItemId> = tx.state.items_with_permit().collect();
    if let Some(id) = active.iter().find(|id| tx.state.is_item_undecided(id)) {
        simple::ask_core(tx, id);
        return true;
    }
    let mut is_answered = false;
    for id in &active {
        is_answered |= start::start_item(tx, id);
    }
    if is_answered {
        return true;
    }
    if tx.state.list.is_any_open() || tx.state.is_refinement_due() || tx.state.is_review_open() {
        return false;
    }
    item::cancel_unreachable(tx);
    after_items::on_items_done(tx);
    true
}

/// An item whose open calls are all at other agents is waiting; an item that has something to do here is in progress.
fn mark_waiting_items(tx: &mut Tx<'_>) {
    use crate::domain::plan::ItemStatus::{InProgress, Waiting};
    let moved: Vec<_> = tx
        .state
        .list
        .open()
        .filter_map(|item| {
            let work = item.progress.work.as_ref()?;
            let is_waiting = !tx.state.is_busy(work) && tx.state.batch_has(&work.batch, CallStatus::AtPeer);
            let status = if is_waiting { Waiting } else { InProgress };
            (item.progress.status != status).then(|| (item.def.id.clone(), status))
        })
        .collect();
    for (id, status) in moved {
        item::set_status(tx, &id, status, None);
    }
}
