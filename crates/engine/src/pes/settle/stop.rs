//! Ends everything of the active run that is still open.

use crate::domain::actor::ServerActor;
use crate::domain::hitl::{Decision, SuspensionKind};
use crate::domain::ids::{CallId, ItemId, SuspensionId};
use crate::domain::tool::CallStatus;
use crate::pes::settle::{call, item, model_call, suspension, task};
use crate::pes::tx::Tx;

/// What is recorded of a model call that ends with its run.
const RUN_STOPPED: &str = "the run was stopped";

/// Closes every slot, question and item of the active run. A pause stays open until the run has ended.
pub(crate) fn everything(tx: &mut Tx<'_>, reason: &str) {
    model_call::stop(tx, None, RUN_STOPPED);
    let open: Vec<ItemId> = tx.state.list.open().map(|item| item.def.id.clone()).collect();
    for id in &open {
        model_call::stop(tx, Some(id), RUN_STOPPED);
        for call in tx.state.open_calls_of(id) {
            call::end_open(tx, &call, reason);
        }
        item::cancel(tx, id, reason.to_owned());
    }
    let questions = tx.state.suspensions.values().filter(|open| open.kind != SuspensionKind::Pause);
    for id in questions.map(|open| open.suspension_id.clone()).collect::<Vec<SuspensionId>>() {
        suspension::close(tx, &id, Decision::Cancelled, ServerActor::Engine, Some(reason.to_owned()));
    }
    item::cancel_pending(tx, reason);
}

/// The same for a thread that cannot be read completely. Calls whose item does not know them any more, and tasks whose
/// call is gone, would otherwise outlast the run.
pub(crate) fn everything_stored(tx: &mut Tx<'_>, reason: &str) {
    let is_open = |id: &&CallId| tx.state.call_status(id) != Some(CallStatus::Done);
    for call in tx.state.calls.keys().filter(is_open).cloned().collect::<Vec<_>>() {
        call::end_open(tx, &call, reason);
    }
    let tasks = tx.state.tasks.values().filter(|(_, task)| !task.status.is_terminal());
    for id in tasks.map(|(_, task)| task.task_id.clone()).collect::<Vec<_>>() {
        task::cancel(tx, &id, Some(reason.to_owned()));
    }
    everything(tx, reason);
}
