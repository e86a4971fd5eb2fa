//! Changes of a plan by models: a refinement of the whole list, or a step's patch of the rest. Both merge by id; an
//! item that ran keeps its results, and no model can mark an item as done that did not run.

use std::collections::BTreeSet;

use crate::domain::facts::{PlanSource, PlanUpdateBody};
use crate::domain::fault::Code;
use crate::domain::ids::ItemId;
use crate::domain::model;
use crate::domain::plan::{ChangeType, ItemStatus};
use crate::domain::run::RunError;
use crate::parse::{ItemDraft, PlanDraft, PlanPatchDraft};
use crate::pes::plan::change::{self, PlanMerge};
use crate::pes::plan::{forget, redo};
use crate::pes::state::State;
use crate::pes::tx::Tx;

/// Merges a refinement: items that it lists are updated or added; pending items that it was shown and does not list are
/// cancelled.
pub(crate) fn merge(tx: &mut Tx<'_>, draft: &PlanDraft, shown: i64) -> PlanMerge {
    let listed: BTreeSet<ItemId> = draft.items.iter().map(|d| d.id.as_str().into()).collect();
    let missing: Vec<ItemId> = tx
        .state
        .list
        .iter()
        .filter(|item| item.progress.status == ItemStatus::Pending && item.def.since <= shown)
        .filter(|item| item.def.edited.is_none_or(|edited| edited <= shown) && !listed.contains(&item.def.id))
        .map(|item| item.def.id.clone())
        .collect();
    let mut merged = merge_items(tx, &draft.items, shown, None);
    // A reply of calls without a list says nothing about the other items.
    let says_nothing = draft.items.is_empty() || !draft.calls.is_empty();
    for id in missing.into_iter().filter(|_| !says_nothing) {
        change::change_status(tx, &id, ItemStatus::Cancelled, &mut merged, Some("left out of the refined plan"));
    }
    snapshot(tx, merged)
}

/// Merges an `updatedPlan`: adds and changes by id; cancels only the items that it marks as cancelled.
pub(crate) fn apply_patch(tx: &mut Tx<'_>, item: &ItemId, shown: i64, mut patch: PlanPatchDraft) {
    change::restore_ids(tx.state, &mut patch.items);
    change::name_items(tx.state, &mut patch.items);
    change::set_intent(tx, patch.intent.as_deref(), Some(item));
    let has_plan = change::set_text(tx, patch.plan.as_deref());
    let merged = merge_items(tx, &patch.items, shown, Some(item));
    let merged = snapshot(tx, merged);
    match (merged.changes.is_empty(), has_plan) {
        (true, false) => return,
        (true, true) => tx.state.head.plan_version += 1,
        (false, _) => {}
    }
    let plan = has_plan.then(|| tx.state.head.plan.clone());
    let update = change::new_update(tx, PlanSource::Agent, &merged.changes);
    change::record_update(tx, Some(item), PlanUpdateBody { plan, ..update });
    change::record_status_changes(tx, &merged);
}

/// `by`: the item whose step patches the plan; `None`: a refinement of the whole plan.
fn merge_items(tx: &mut Tx<'_>, drafts: &[ItemDraft], shown: i64, by: Option<&ItemId>) -> PlanMerge {
    let version = tx.state.head.plan_version + 1;
    let mut merged = PlanMerge::default();
    forget::make_room(tx, drafts, version, &mut merged);
    let (mut added, mut left_out) = (Vec::new(), Vec::new());
    let mut ord = tx.state.list.next_ord();
    let room = tx.world.limits.items_per_plan.saturating_sub(tx.state.list.len());
    for draft in drafts {
        let id: ItemId = draft.id.as_str().into();
        if is_overruled(tx.state, &id, shown) {
            let text = format!("Your change of item {id} was dropped: it was edited or removed meanwhile.");
            change::note(tx, by, text);
            continue;
        }
        match tx.state.item(&id).map(|item| item.progress.status) {
            None if change::is_wanted(draft) && added.len() >= room => left_out.push(id),
            None if change::is_wanted(draft) => {
                let mut item = change::new_item(tx, ord, draft);
                item.def.since = version;
                added.push(item);
                ord += 1;
            }
            None => {}
            Some(status) => merge_item(tx, &id, status, draft, by.is_none(), &mut merged),
        }
    }
    if !left_out.is_empty() {
        report_left_out(tx, &left_out, by);
    }
    if merged.has_new_dependencies {
        tx.state.list.rebuild(|_| ());
    }
    if !added.is_empty() {
        let ids: Vec<ItemId> = added.iter().map(|item| item.def.id.clone()).collect();
        tx.state.list.rebuild(|list| list.extend(added));
        merged.changes.extend(ids.iter().map(|id| change::item_change(tx, ChangeType::Added, id)));
    }
    merged
}

/// Records that the plan has no room for these items, also for the run's result, and names them in the next prompt of
/// the model that added them.
fn report_left_out(tx: &mut Tx<'_>, ids: &[ItemId], by: Option<&ItemId>) {
    const NAMED: usize = 5;
    let (most, count) = (tx.world.limits.items_per_plan, ids.len());
    let named: Vec<&str> = ids.iter().take(NAMED).map(ItemId::as_str).collect();
    let dots = if count > NAMED { ", …" } else { "" };
    let message =
        format!("The plan is full with {most} items: {count} new ones were left out ({}{dots}).", named.join(", "));
    let phase = if by.is_some() { model::Phase::Execution } else { model::Phase::Planning };
    tx.record_error(phase, Code::TooManyItems.as_str(), &message, false, by);
    tx.active().left_out = Some(RunError { code: Code::TooManyItems, message: message.clone(), phase });
    change::note(tx, by, message);
}

fn merge_item(
    tx: &mut Tx<'_>,
    id: &ItemId,
    status: ItemStatus,
    draft: &ItemDraft,
    refines: bool,
    merged: &mut PlanMerge,
) {
    match (status, draft.status) {
        (ItemStatus::Completed, _) if refines && draft.redo => redo::redo(tx, id, draft, merged),
        (ItemStatus::InProgress | ItemStatus::Waiting, _) if refines && draft.redo => {
            change::note(tx, None, format!("Item {id} is still under way: it was not begun again."));
        }
        (ItemStatus::Completed | ItemStatus::InProgress | ItemStatus::Waiting, _) => {}
        (ItemStatus::Pending, Some(ItemStatus::Cancelled)) => {
            change::change_status(tx, id, ItemStatus::Cancelled, merged, Some("cancelled by the plan"));
        }
        (ItemStatus::Pending, _) => change::redefine(tx, id, draft, merged),
        (ItemStatus::Failed | ItemStatus::Cancelled, status)
            if refines && (draft.redo || status == Some(ItemStatus::Pending)) =>
        {
            change::redefine(tx, id, draft, merged);
            change::change_status(tx, id, ItemStatus::Pending, merged, None);
        }
        (ItemStatus::Failed | ItemStatus::Cancelled, _) => {}
    }
}

/// Increments the planVersion if anything changed, and adds to the changes the items as they are now.
pub(crate) fn snapshot(tx: &mut Tx<'_>, mut merged: PlanMerge) -> PlanMerge {
    if merged.changes.is_empty() {
        return merged;
    }
    tx.state.head.plan_version += 1;
    let changes = std::mem::take(&mut merged.changes);
    merged.changes = changes.into_iter().map(|change| change::item_change(tx, change.kind, &change.item_id)).collect();
    merged
}

/// Whether a person edited or removed the item after the model had seen it: then the newer change wins.
fn is_overruled(state: &State, id: &ItemId, shown: i64) -> bool {
    let edited = state.item(id).and_then(|item| item.def.edited);
    let removed = state.removed.get(id).copied();
    edited.into_iter().chain(removed).any(|version| version > shown)
}
