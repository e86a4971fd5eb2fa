//! The life of an item: how its status changes, and how it settles.

use serde_json::Value;

use crate::domain::facts::ItemStatusChangeBody;
use crate::domain::ids::ItemId;
use crate::domain::model::Phase;
use crate::domain::payload;
use crate::domain::plan::{ItemStatus, ValidationStatus};
use crate::domain::settings::OnItemFailure;
use crate::history::view;
use crate::pes::settle::{call, model_call};
use crate::pes::state::{Replan, State, text};
use crate::pes::tx::Tx;

/// The length of the excerpt of a long result that is kept with its item.
const MAX_EXCERPT_CHARS: usize = 1_000;
pub(crate) const DEPENDENCY_FAILED: &str = "dependency failed";
/// The reason of an item that `onItemFailure: stop` kept from beginning.
pub(crate) const STOPPED: &str = "an item failed";

/// Changes an item's status and records it.
pub(crate) fn set_status(tx: &mut Tx<'_>, id: &ItemId, status: ItemStatus, reason: Option<String>) {
    let Some(from) = tx.state.item(id).map(|item| item.progress.status) else { return };
    let now = tx.stamp.now;
    tx.change_progress(id, |progress| {
        progress.reason = reason;
        progress.updated = now;
    });
    tx.state.list.set_status(id, status);
    record_status(tx, id, from);
}

/// Records the item's current status.
pub(crate) fn record_status(tx: &mut Tx<'_>, id: &ItemId, from: ItemStatus) {
    let Some(item) = tx.state.item(id) else { return };
    let progress = &item.progress;
    let body = ItemStatusChangeBody {
        item_id: id.clone(),
        from,
        status: progress.status,
        attempt: progress.attempt,
        reason: progress.reason.clone(),
        step_output: progress.status.is_settled().then(|| view::step_output(tx.state, item)),
        item: view::changed_members(tx.state, item),
    };
    let title = format!("{}: {}", text::cut(&item.def.description, 80), progress.status.word());
    tx.record(Some(id), title, body);
}

/// Completes an item with its result; `result_text` is the result as text.
pub(crate) fn complete(
    tx: &mut Tx<'_>,
    id: &ItemId,
    result: Value,
    result_text: &str,
    validation: Option<ValidationStatus>,
) {
    close_loop(tx, id);
    let is_apart = payload::reference(&result).is_some() && !result_text.trim().is_empty();
    let excerpt = is_apart.then(|| text::excerpt(result_text, MAX_EXCERPT_CHARS));
    tx.change_progress(id, |progress| {
        progress.result = Some(result);
        progress.excerpt = excerpt;
        progress.validation = validation;
    });
    set_status(tx, id, ItemStatus::Completed, None);
}

/// Ends an item without a result, and cancels the items that depend on it. A failure is always recorded.
pub(crate) fn fail(tx: &mut Tx<'_>, id: &ItemId, code: &str, message: String) {
    close_loop(tx, id);
    tx.record_error(Phase::Execution, code, &message, false, Some(id));
    set_status(tx, id, ItemStatus::Failed, Some(format!("{code}: {message}")));
    cancel_dependants(tx, id);
    match tx.state.run_settings().execution.on_item_failure {
        OnItemFailure::Continue => {}
        OnItemFailure::Replan => {
            let note = failure_note(id, code);
            let active = tx.active();
            if active.replan == Replan::Unasked {
                active.replan = Replan::Due;
                active.notes.push(note);
            }
        }
        OnItemFailure::Stop => {
            tx.active().is_stopped = true;
            cancel_pending(tx, STOPPED);
        }
    }
}

/// Asks the planner to plan around a failed item.
fn failure_note(id: &ItemId, code: &str) -> String {
    format!("{}{code}): plan around it if you can.", failure_note_start(id))
}

fn failure_note_start(id: &ItemId) -> String {
    format!("Item {id} failed (")
}

/// A failed item is done again. A refinement that its failure has asked for is then about another item that failed in
/// this run; without one it is not made.
pub(crate) fn withdraw_failure(tx: &mut Tx<'_>, id: &ItemId) {
    if tx.active().replan != Replan::Due {
        return;
    }
    let other = tx.state.settled_now().find(|item| item.progress.status == ItemStatus::Failed).map(|item| {
        let reason = item.progress.reason.as_deref().unwrap_or_default();
        failure_note(&item.def.id, reason.split(": ").next().unwrap_or_default())
    });
    let active = tx.active();
    if other.is_none() {
        active.replan = Replan::Unasked;
    }
    let own = failure_note_start(id);
    if let Some(at) = active.notes.iter().position(|note| note.starts_with(&own)) {
        drop(active.notes.splice(at..=at, other));
    }
}

/// Ends what is still open in the item's loop: calls that never started are skipped, questions are withdrawn.
fn close_loop(tx: &mut Tx<'_>, id: &ItemId) {
    for call in tx.state.open_calls_of(id) {
        call::end_open(tx, &call, "the step ended");
    }
    tx.change_progress(id, |progress| progress.work = None);
    tx.state.list.on_loop_changed(id);
}

/// Cancels, transitively, the pending items that can never start because this one failed or was skipped.
pub(crate) fn cancel_dependants(tx: &mut Tx<'_>, id: &ItemId) {
    let mut todo = vec![id.clone()];
    while let Some(cause) = todo.pop() {
        let pending: Vec<ItemId> = tx
            .state
            .list
            .dependants(&cause)
            .filter(|item| item.progress.status == ItemStatus::Pending)
            .map(|item| item.def.id.clone())
            .collect();
        for dependant in pending {
            cancel(tx, &dependant, DEPENDENCY_FAILED.to_owned());
            todo.push(dependant);
        }
    }
}

/// Cancels the items that have not begun.
pub(crate) fn cancel_pending(tx: &mut Tx<'_>, reason: &str) {
    let pending: Vec<ItemId> = tx
        .state
        .list
        .iter()
        .filter(|item| item.progress.status == ItemStatus::Pending)
        .map(|item| item.def.id.clone())
        .collect();
    for id in pending {
        cancel(tx, &id, reason.to_owned());
    }
}

/// Cancels an item. It counts as settled in the active run.
pub(crate) fn cancel(tx: &mut Tx<'_>, id: &ItemId, reason: String) {
    let run = tx.state.active_run().run_id.clone();
    model_call::stop(tx, Some(id), &reason);
    close_loop(tx, id);
    tx.change_progress(id, |progress| progress.run = Some(run));
    set_status(tx, id, ItemStatus::Cancelled, Some(reason));
}

/// Nothing is open and nothing may begin, so the pending items wait for something that will never happen. Items with a
/// known cause are cancelled first, then the items that depend on them; the rest depends on itself.
pub(crate) fn cancel_unreachable(tx: &mut Tx<'_>) {
    if tx.active().is_stopped {
        return cancel_pending(tx, STOPPED);
    }
    let pending = tx.state.list.iter().filter(|item| item.progress.status == ItemStatus::Pending);
    let known: Vec<(ItemId, String)> = pending
        .filter_map(|item| Some((item.def.id.clone(), why_unreachable(tx.state, &item.def.dependencies)?)))
        .collect();
    for (id, reason) in &known {
        cancel(tx, id, reason.clone());
    }
    for (id, _) in &known {
        cancel_dependants(tx, id);
    }
    cancel_pending(tx, "dependency cycle");
}

/// Why an item with these dependencies can never begin. `None`: none of them shows a reason.
fn why_unreachable(state: &State, dependencies: &[ItemId]) -> Option<String> {
    dependencies.iter().find_map(|id| match state.item(id).map(|item| item.progress.status) {
        None => Some(format!("unknown dependency: {id}")),
        Some(ItemStatus::Failed | ItemStatus::Cancelled) => Some(DEPENDENCY_FAILED.to_owned()),
        Some(ItemStatus::Completed | ItemStatus::Pending | ItemStatus::InProgress | ItemStatus::Waiting) => None,
    })
}
