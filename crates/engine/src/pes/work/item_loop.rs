//! An item's loop: it begins, stores the model's replies, and opens further model calls.

use crate::domain::ids::{CallId, ItemId};
use crate::domain::plan::{ItemCode, ItemStatus};
use crate::pes::plan::redo;
use crate::pes::settle::item;
use crate::pes::state::{ItemLoop, ModelCall, ReceivedReply, TurnContent};
use crate::pes::tx::Tx;

/// Stores the model's reply for its next prompt.
pub(crate) fn store_reply(tx: &mut Tx<'_>, id: &ItemId, replied: &ReceivedReply<'_>, calls: Vec<CallId>) {
    let replay = replied.reply.replay.clone().map(|replay| tx.store(format!("{}.replay", replied.stream), replay));
    tx.add_turn(id, TurnContent::Model { text: replied.text.clone(), calls, replay });
}

/// Opens one more model call, if the iterations allow it: the batch is done, or the model wants to continue.
pub(crate) fn next_iteration(tx: &mut Tx<'_>, id: &ItemId) {
    if count_iteration(tx, id) {
        let shown = tx.state.head.plan_version;
        tx.change_loop(id, |work| work.model = Some(ModelCall::ready(work.iteration, shown)));
    }
}

/// Counts one iteration. `false`: none is left, and the item has failed.
pub(crate) fn count_iteration(tx: &mut Tx<'_>, id: &ItemId) -> bool {
    let execution = &tx.state.run_settings().execution;
    let (used, most) = tx.state.loop_of(id).map_or((0, 1), |work| (work.iteration, work.max_iterations(execution)));
    if used >= most {
        item::fail(tx, id, ItemCode::MaxIterations.as_str(), format!("not finished after {most} model calls"));
        return false;
    }
    tx.change_loop(id, |work| work.iteration += 1);
    true
}

/// Opens an item's loop.
pub(crate) fn begin(tx: &mut Tx<'_>, id: &ItemId, model: Option<ModelCall>) {
    let first_ord = tx.next_ord();
    let run = tx.state.active_run().run_id.clone();
    let notes = redo::notes(tx.state, id);
    tx.change_progress(id, |progress| {
        progress.outdated.clear();
        progress.attempt += 1;
        progress.run = Some(run);
        progress.reason = None;
        progress.validation = None;
        progress.work =
            Some(ItemLoop { iteration: 1, model, has_permit: true, first_ord, notes, ..ItemLoop::default() });
    });
    item::set_status(tx, id, ItemStatus::InProgress, None);
}
