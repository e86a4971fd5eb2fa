//! A completed item is done again because a refinement or a person says so: a new attempt of the same item. The result
//! of the old attempt stays in the log. The calls of an earlier attempt, also of one that failed or was cancelled, may
//! have had their effect already, so a person is asked before a call may have it twice.

use crate::domain::ids::ItemId;
use crate::domain::plan::ItemStatus;
use crate::domain::tool::{Judgement, ToolClass, Verdict};
use crate::parse::ItemDraft;
use crate::pes::people::suspend;
use crate::pes::plan::change::{self, PlanMerge};
use crate::pes::state::State;
use crate::pes::tx::Tx;

/// Makes a completed item pending again, and marks the items that depend on it.
pub(crate) fn redo(tx: &mut Tx<'_>, id: &ItemId, draft: &ItemDraft, merged: &mut PlanMerge) {
    let known = tx.state.item(id).map(|item| item.def.dependencies.clone()).unwrap_or_default();
    change::redefine(tx, id, draft, merged);
    // The item was completed, so dependencies that were removed from the list since were completed too.
    let forgotten: Vec<ItemId> = known.into_iter().filter(|need| tx.state.item(need).is_none()).collect();
    if let Some(item) = tx.state.list.get_mut(id) {
        item.def.dependencies.retain(|need| !forgotten.contains(need));
        merged.has_new_dependencies |= !forgotten.is_empty();
    }
    tx.change_progress(id, |progress| progress.redone = true);
    change::change_status(tx, id, ItemStatus::Pending, merged, None);
    note_for_dependants(tx, id);
}

/// Items that have begun are marked, for planners and for the answer; those in progress also get a note in their next
/// prompt. Those that have not begun wait for the new result.
fn note_for_dependants(tx: &mut Tx<'_>, id: &ItemId) {
    let dependants: Vec<(ItemId, ItemStatus)> =
        tx.state.list.dependants(id).map(|item| (item.def.id.clone(), item.progress.status)).collect();
    for (dependant, status) in dependants {
        match status {
            ItemStatus::InProgress | ItemStatus::Waiting => {
                let note = format!("Item {id}, on which this depends, is done again: its earlier result is void.");
                change::note(tx, Some(&dependant), note);
                mark_outdated(tx, &dependant, id);
            }
            ItemStatus::Completed => mark_outdated(tx, &dependant, id),
            ItemStatus::Pending | ItemStatus::Failed | ItemStatus::Cancelled => {}
        }
    }
}

fn mark_outdated(tx: &mut Tx<'_>, dependant: &ItemId, need: &ItemId) {
    tx.change_progress(dependant, |progress| {
        progress.outdated.retain(|known| known != need);
        progress.outdated.push(need.clone());
    });
}

/// The next prompt of an item in progress contains the current results: dependencies that are completed again are no
/// longer outdated. Returns how many notes the item has.
pub(crate) fn catch_up(tx: &mut Tx<'_>, id: &ItemId) -> u32 {
    let Some(item) = tx.state.item(id) else { return 0 };
    let notes = item.progress.work.as_ref().map_or(0, |work| work.notes.len() as u32);
    let is_done = |need: &ItemId| tx.state.item(need).is_some_and(|it| it.progress.status == ItemStatus::Completed);
    let outdated: Vec<ItemId> = item.progress.outdated.iter().filter(|need| !is_done(need)).cloned().collect();
    if outdated.len() < item.progress.outdated.len() {
        tx.change_progress(id, |progress| progress.outdated = outdated);
    }
    notes
}

/// The note in the first prompt of an item that is done again.
pub(crate) fn notes(state: &State, id: &ItemId) -> Vec<String> {
    let is_redone = state.item(id).is_some_and(|item| item.progress.redone);
    let note = "This item was completed before and is to be done again. What its earlier calls returned is above, \
                if anything, and does not count: make the calls that it needs again.";
    is_redone.then(|| note.to_owned()).into_iter().collect()
}

/// A call asks a person if its effect could happen twice: every call of an item that was completed before, and a call
/// of a tool that an earlier attempt of the item called with a lasting or unknown effect. What only reads or was
/// declared idempotent does not ask.
pub(crate) fn require_approval(state: &State, id: &ItemId, tool: &str, judgement: Judgement) -> Judgement {
    let (class, delegates) = match judgement.verdict {
        Verdict::Run { class, idempotent: false } if class != ToolClass::Read => (class, false),
        Verdict::Delegate => (ToolClass::External, true),
        Verdict::Client => (ToolClass::External, false),
        Verdict::Run { .. } | Verdict::Ask { .. } | Verdict::Input { .. } | Verdict::Refuse(_) => return judgement,
    };
    let Some(item) = state.item(id) else { return judgement };
    let why = if item.progress.redone {
        format!("Step {id} is done again.")
    } else if state.has_earlier_effect(item, tool) {
        format!("An earlier attempt of step {id} called `{tool}`, which may have had its effect.")
    } else {
        return judgement;
    };
    let message = format!("{why} May `{tool}` run once more with these arguments?");
    Judgement { verdict: suspend::ask_first(class, false, delegates, message), ..judgement }
}
