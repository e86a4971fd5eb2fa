//! Keeps the plan of a long-lived thread short: items that earlier runs settled are removed when the plan grows too
//! long. The log still has them.

use std::collections::BTreeSet;

use crate::domain::ids::{ItemId, RunId};
use crate::domain::plan::{ChangeType, ItemStatus};
use crate::parse::ItemDraft;
use crate::pes::plan::change::{self, PlanMerge};
use crate::pes::state::{Item, State, rows};
use crate::pes::tx::Tx;

/// If the plan has more items, those that were settled before the last run are removed: the plan is part of every
/// planner's prompt, and some models have a small context.
const MAX_REMEMBERED_ITEMS: usize = 100;

/// The least number of items that the list can have with those that the planner adds.
pub(crate) fn min_items_with(tx: &Tx<'_>, drafts: &[ItemDraft]) -> usize {
    let with_new = items_with(tx.state, drafts);
    let excess = with_new.saturating_sub(tx.world.limits.items_per_plan);
    with_new - removable(tx.state, drafts, None, excess).len()
}

fn items_with(state: &State, drafts: &[ItemDraft]) -> usize {
    let is_new = |draft: &&ItemDraft| change::is_wanted(draft) && state.item(&draft.id.as_str().into()).is_none();
    state.list.len() + drafts.iter().filter(is_new).count()
}

/// Removes the items that must make room for these, and those that are too old to be in every prompt. Items of the last
/// run are removed only if there is no other room.
pub(crate) fn make_room(tx: &mut Tx<'_>, drafts: &[ItemDraft], version: i64, merged: &mut PlanMerge) {
    let last = last_run(tx.state);
    let with_new = items_with(tx.state, drafts);
    let too_old = removable(tx.state, drafts, last.as_ref(), with_new.saturating_sub(MAX_REMEMBERED_ITEMS));
    remove_all(tx, too_old, version, merged);
    let with_new = items_with(tx.state, drafts);
    let too_many = removable(tx.state, drafts, None, with_new.saturating_sub(tx.world.limits.items_per_plan));
    remove_all(tx, too_many, version, merged);
}

/// The last run before this one that worked on the plan: it may have done again what is the oldest in the list.
fn last_run(state: &State) -> Option<RunId> {
    let now = &state.active_run().run_id;
    let settled = state.list.iter().map(|item| &item.progress).filter(|progress| progress.status.is_settled());
    let earlier = settled.filter(|progress| progress.run.as_ref().is_some_and(|run| run != now));
    earlier.max_by_key(|progress| progress.updated)?.run.clone()
}

/// Up to `count` of the oldest items that earlier runs settled: no items of this run, and none that such an item, an
/// open item or one of these drafts depends on. Items that were not completed are removed together with what they
/// waited for.
fn removable(state: &State, drafts: &[ItemDraft], last: Option<&RunId>, count: usize) -> BTreeSet<ItemId> {
    let mut gone = BTreeSet::new();
    if count == 0 {
        return gone;
    }
    let kept = items_to_keep(state, drafts, last);
    for item in state.list.iter().filter(|item| !kept.contains(&item.def.id)) {
        if gone.len() >= count {
            break;
        }
        let mut next = vec![item];
        while let Some(item) = next.pop() {
            if gone.insert(item.def.id.clone()) {
                next.extend(state.list.dependants(&item.def.id).filter(is_incomplete));
            }
        }
    }
    gone
}

/// The items that must stay, with everything that they depend on and that is not completed.
fn items_to_keep(state: &State, drafts: &[ItemDraft], last: Option<&RunId>) -> BTreeSet<ItemId> {
    let runs = [Some(&state.active_run().run_id), last];
    let is_of = |item: &&Item| item.progress.run.is_some() && runs.contains(&item.progress.run.as_ref());
    let listed = state.list.iter().filter(|item| !item.progress.status.is_settled() || is_of(item));
    let mut next: Vec<ItemId> = listed.map(|item| item.def.id.clone()).collect();
    for draft in drafts {
        let needs = draft.dependencies.iter().flatten();
        next.extend(needs.chain([&draft.id]).map(|id| ItemId::from(id.as_str())));
    }
    let mut kept = BTreeSet::new();
    while let Some(id) = next.pop() {
        if kept.insert(id.clone())
            && let Some(item) = state.item(&id).filter(is_incomplete)
        {
            next.extend(item.def.dependencies.iter().cloned());
        }
    }
    kept
}

fn remove_all(tx: &mut Tx<'_>, ids: BTreeSet<ItemId>, version: i64, merged: &mut PlanMerge) {
    if ids.is_empty() {
        return;
    }
    let mut gone = Vec::new();
    tx.state.list.rebuild(|list| gone.extend(list.extract_if(.., |item| ids.contains(&item.def.id))));
    for item in gone {
        remove(tx, &item, version, merged);
    }
}

/// Removes an item that is no longer in the list; its calls stay readable.
pub(crate) fn remove(tx: &mut Tx<'_>, item: &Item, version: i64, merged: &mut PlanMerge) {
    let id = &item.def.id;
    merged.note(ChangeType::Removed, id);
    tx.unmark_item(id);
    let ord = tx.next_ord();
    rows::tombstone(&item.def, ord, version).into_iter().for_each(|row| tx.written.put(row));
    tx.state.removed.insert(id.clone(), version);
    item.calls.iter().for_each(|id| tx.unload_call(id));
}

fn is_incomplete(item: &&Item) -> bool {
    item.progress.status != ItemStatus::Completed
}
