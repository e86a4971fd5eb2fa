//! What happens next: after every event, whatever may begin begins, in the same transition.

use super::review::SentBack;
use super::state::State;
use super::state::{Active, ItemLoop, ModelCall, Phase, Replan, Shape};
use super::tx::Tx;
use super::{budget, cancel, delegate, flow, item, names, question, redo, refine, review, slots};
use crate::domain::ids::ItemId;
use crate::domain::plan::ItemStatus;

pub(super) fn run_to_quiescence(tx: &mut Tx<'_>) {
    question::tell_calls(tx);
    while tx.state.run.is_some() {
        if is_cancel_complete(tx.state) {
            cancel::complete(tx);
        } else if budget::is_spent(tx.state, tx.world, tx.stamp.now) {
            budget::on_spent(tx);
        } else if !start_ready(tx) && !budget::is_spent(tx.state, tx.world, tx.stamp.now) {
            break;
        }
    }
    delegate::start_due_task_actions(tx);
    delegate::settle_waiting(tx);
}

/// Starts what may start. `true`: more may start now.
fn start_ready(tx: &mut Tx<'_>) -> bool {
    match tx.state.phase() {
        Phase::Idle => false,
        Phase::Planning | Phase::Refining | Phase::Synthesizing => {
            slots::start_main(tx);
            false
        }
        Phase::Executing => {
            review::ask_if_wanted(tx);
            tx.state.may_begin() && execute(tx)
        }
    }
}

/// A cancelled run ends as soon as nothing of it runs.
fn is_cancel_complete(state: &State) -> bool {
    let is_cancelled = state.head.active.as_ref().is_some_and(|active| active.cancel.is_some());
    is_cancelled && !state.is_any_running()
}

/// Starts what may start of the plan. `true`: the phase changed, or a call was answered.
fn execute(tx: &mut Tx<'_>) -> bool {
    leave_places(tx);
    if tx.state.is_refinement_due() {
        if !tx.state.is_any_placed() {
            refine::begin(tx);
            return true;
        }
    } else {
        let mut is_failed = false;
        while let Some(id) = next_for_a_place(tx.state) {
            is_failed |= !take_place(tx, &id);
        }
        // What follows from a failure is decided from the beginning.
        if is_failed {
            return true;
        }
    }
    let placed: Vec<ItemId> = tx.state.placed().collect();
    let mut is_answered = false;
    for id in &placed {
        is_answered |= slots::start_item(tx, id);
    }
    if is_answered {
        return true;
    }
    if tx.state.list.is_any_open() || tx.state.is_refinement_due() || tx.state.is_review_open() {
        return false;
    }
    item::cancel_unreachable(tx);
    flow::end_items(tx);
    true
}

/// An item all of whose slots are parked gives its place to another.
fn leave_places(tx: &mut Tx<'_>) {
    let idle: Vec<ItemId> = tx
        .state
        .placed()
        .filter(|id| {
            let work = tx.state.item(id).and_then(|item| item.progress.work.as_ref());
            work.is_some_and(|work| !tx.state.is_busy(work))
        })
        .collect();
    for id in idle {
        tx.change_loop(&id, |work| work.placed = false);
    }
}

/// Who is next, if a place is free: first those who were resumed, then the first pending item.
fn next_for_a_place(state: &State) -> Option<ItemId> {
    let places = state.settings().execution.max_parallel_items.max(1) as usize;
    if state.placed().count() >= places {
        return None;
    }
    let resumed = state.list.open().filter_map(|item| {
        let work = item.progress.work.as_ref()?;
        (!work.placed && state.is_busy(work)).then_some((work.waits, item))
    });
    if let Some((_, item)) = resumed.min_by_key(|(waits, _)| *waits) {
        return Some(item.def.id.clone());
    }
    let is_stopped = state.head.active.as_ref().is_some_and(|active| active.stopped);
    let may_begin = !is_stopped && !state.is_review_open();
    state.list.next_ready().filter(|_| may_begin).map(|item| item.def.id.clone())
}

/// `false`: there was no use in it, the item has failed.
fn take_place(tx: &mut Tx<'_>, id: &ItemId) -> bool {
    let is_open = tx.state.item(id).is_some_and(|item| item.progress.work.is_some());
    if is_open {
        tx.change_loop(id, |work| {
            work.placed = true;
            work.waits = None;
        });
    } else if let Some(tool) = names::unknown_tool_of(tx, id) {
        begin_item(tx, id, None);
        item::fail(tx, id, "unknown_tool", format!("it requires {tool}, and there is no such tool here"));
        return false;
    } else {
        let shown = tx.state.head.plan_version;
        begin_item(tx, id, Some(ModelCall::ready(1, shown)));
    }
    true
}

/// Opens an item's loop.
pub(super) fn begin_item(tx: &mut Tx<'_>, id: &ItemId, model: Option<ModelCall>) {
    let first = tx.next_ord();
    let run = tx.state.active_run().run_id.clone();
    let notes = redo::notes(tx.state, id);
    tx.change_progress(id, |progress| {
        progress.outdated.clear();
        progress.attempt += 1;
        progress.run = Some(run);
        progress.reason = None;
        progress.validation = None;
        progress.work = Some(ItemLoop { iteration: 1, model, placed: true, first, notes, ..ItemLoop::default() });
    });
    item::set_status(tx, id, ItemStatus::InProgress, None);
}

/// Marks that an item may go on, so that it waits for a place in the order of resumption.
pub(super) fn waits_for_place(tx: &mut Tx<'_>, id: &ItemId) {
    let ord = tx.next_ord();
    tx.change_loop(id, |work| {
        if !work.placed && work.waits.is_none() {
            work.waits = Some(ord);
        }
    });
}

impl State {
    fn placed(&self) -> impl Iterator<Item = ItemId> + use<'_> {
        let is_placed = |work: &ItemLoop| work.placed;
        let open = self.list.open();
        open.filter(move |item| item.progress.work.as_ref().is_some_and(is_placed)).map(|item| item.def.id.clone())
    }

    fn is_any_placed(&self) -> bool {
        self.placed().next().is_some()
    }

    pub(super) fn is_refinement_due(&self) -> bool {
        let is_due = |active: &Active| {
            let is_steered = active.steers.iter().any(|steer| !steer.shown);
            is_steered || active.replan == Replan::Due || active.review.sent_back == SentBack::Due
        };
        self.shape == Shape::Planned && self.head.active.as_ref().is_some_and(is_due)
    }
}
