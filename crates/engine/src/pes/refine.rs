//! Changes of a plan by models: a refinement of the whole list, or a step's patch of the rest. Both merge by id; what
//! ran keeps its results, and no model can mark as done what did not run.

use super::plan::Source;
use super::review::SentBack;
use super::state::State;
use super::state::{ModelCall, Phase, Replan};
use super::tx::Tx;
use super::{forget, item, plan, redo, review};
use crate::domain::fault::Code;
use crate::domain::ids::ItemId;
use crate::domain::model;
use crate::domain::plan::{ChangeType, ItemStatus, TodoItemChange};
use crate::parse::{ItemDraft, PlanDraft, PlanPatchDraft};

/// How many dropped changes a prompt names.
const NOTES: usize = 20;

/// What a merge came to.
#[derive(Default)]
pub(super) struct Merged {
    pub changes: Vec<TodoItemChange>,
    /// Items whose status moved, with the one they had; to be recorded after the plan.
    pub moved: Vec<(ItemId, ItemStatus)>,
    /// Dependencies changed: the list must work out again what may begin.
    pub is_relinked: bool,
}

/// The planner is asked about the rest of the plan, in the middle of a run.
pub(super) fn begin(tx: &mut Tx<'_>) {
    review::withdraw(tx, "the plan is being made anew");
    tx.state.head.phase = Phase::Refining;
    let shown = tx.state.head.plan_version;
    let active = tx.active();
    active.steers.iter_mut().for_each(|steer| steer.shown = true);
    // Whoever steers after a failure wants it to go on.
    active.stopped = false;
    active.replan = if active.replan == Replan::Due { Replan::Done } else { active.replan };
    if active.review.sent_back == SentBack::Due {
        active.review.sent_back = SentBack::Told;
    }
    active.model = Some(ModelCall::ready(1, shown));
}

/// The refinement is over, whatever came of it.
pub(super) fn refined(tx: &mut Tx<'_>) {
    tx.state.head.phase = Phase::Executing;
    let active = tx.active();
    active.planned = true;
    if active.review.sent_back == SentBack::Told {
        active.review.sent_back = SentBack::No;
    }
}

/// The planner has read what it was to be told. What failed meanwhile is told to the refinement that it asks for.
pub(super) fn notes_were_shown(tx: &mut Tx<'_>) {
    let active = tx.active();
    if active.replan != Replan::Due {
        active.notes.clear();
    }
}

/// A refinement that failed in the middle of a run leaves the plan as it is.
pub(super) fn failed(tx: &mut Tx<'_>, code: Code, message: &str) {
    tx.record_error(model::Phase::Planning, code.as_str(), message, false, None);
    refined(tx);
}

/// A refinement: what it lists is updated or added; pending items that it was shown and does not list are cancelled.
pub(super) fn merge(tx: &mut Tx<'_>, draft: &PlanDraft, shown: i64) -> Merged {
    let listed: std::collections::BTreeSet<ItemId> = draft.items.iter().map(|d| d.id.as_str().into()).collect();
    let missing: Vec<ItemId> = tx
        .state
        .list
        .iter()
        .filter(|item| item.progress.status == ItemStatus::Pending && item.def.since <= shown)
        .filter(|item| item.def.edited.is_none_or(|edited| edited <= shown) && !listed.contains(&item.def.id))
        .map(|item| item.def.id.clone())
        .collect();
    let mut merged = merge_items(tx, &draft.items, shown, None);
    // Calls without a list say nothing about the rest.
    let says_nothing = draft.items.is_empty() || !draft.calls.is_empty();
    for id in missing.into_iter().filter(|_| !says_nothing) {
        move_status(tx, &id, ItemStatus::Cancelled, &mut merged, Some("left out of the refined plan"));
    }
    snapshot(tx, merged)
}

/// `updatedPlan`: adds and changes by id; cancels only what it says is cancelled.
pub(super) fn apply_patch(tx: &mut Tx<'_>, item: &ItemId, shown: i64, mut patch: PlanPatchDraft) {
    plan::name_items(tx.state, &mut patch.items);
    plan::set_intent(tx, patch.intent.as_deref(), Some(item));
    let has_plan = plan::set_text(tx, patch.plan.as_deref());
    let merged = merge_items(tx, &patch.items, shown, Some(item));
    let merged = snapshot(tx, merged);
    match (merged.changes.is_empty(), has_plan) {
        (true, false) => return,
        (true, true) => tx.state.head.plan_version += 1,
        (false, _) => {}
    }
    plan::record_update(tx, Source::Agent, Some(item), &merged.changes);
    if let (true, Some(last)) = (has_plan, tx.records.last_mut()) {
        last.content["plan"] = tx.state.head.plan.clone();
    }
    record_moved(tx, &merged);
}

/// `by`: the item whose step patches the plan; `None`: a refinement of all of it.
fn merge_items(tx: &mut Tx<'_>, drafts: &[ItemDraft], shown: i64, by: Option<&ItemId>) -> Merged {
    let version = tx.state.head.plan_version + 1;
    let mut merged = Merged::default();
    forget::make_room(tx, drafts, version, &mut merged);
    let (mut added, mut left_out) = (Vec::new(), Vec::new());
    let mut ord = tx.state.list.next_ord();
    let room = tx.world.limits.items_per_plan.saturating_sub(tx.state.list.len());
    for draft in drafts {
        let id: ItemId = draft.id.as_str().into();
        if is_overruled(tx.state, &id, shown) {
            let text = format!("Your change of item {id} was dropped: it was edited or removed meanwhile.");
            note(tx, by, text);
            continue;
        }
        match tx.state.item(&id).map(|item| item.progress.status) {
            None if is_wanted(draft) && added.len() >= room => left_out.push(id),
            None if is_wanted(draft) => {
                let mut item = plan::new_item(tx, ord, draft);
                item.def.since = version;
                added.push(item);
                ord += 1;
            }
            None => {}
            Some(status) => merge_item(tx, &id, status, draft, by.is_none(), &mut merged),
        }
    }
    if !left_out.is_empty() {
        tell_left_out(tx, &left_out, by);
    }
    if merged.is_relinked {
        tx.state.list.rebuild(|_| ());
    }
    if !added.is_empty() {
        let ids: Vec<ItemId> = added.iter().map(|item| item.def.id.clone()).collect();
        tx.state.list.rebuild(|list| list.extend(added));
        merged.changes.extend(ids.iter().map(|id| plan::change(tx, ChangeType::Added, id)));
    }
    merged
}

/// There is no room for these: who added them is told, and everybody who reads the log.
fn tell_left_out(tx: &mut Tx<'_>, ids: &[ItemId], by: Option<&ItemId>) {
    const NAMED: usize = 5;
    let (most, count) = (tx.world.limits.items_per_plan, ids.len());
    let named: Vec<&str> = ids.iter().take(NAMED).map(ItemId::as_str).collect();
    let dots = if count > NAMED { ", …" } else { "" };
    let message =
        format!("The plan is full with {most} items: {count} new ones were left out ({}{dots}).", named.join(", "));
    let phase = if by.is_some() { model::Phase::Execution } else { model::Phase::Planning };
    tx.record_error(phase, Code::TooManyItems.as_str(), &message, false, by);
    note(tx, by, message);
}

fn merge_item(tx: &mut Tx<'_>, id: &ItemId, status: ItemStatus, draft: &ItemDraft, refines: bool, merged: &mut Merged) {
    match (status, draft.status) {
        (ItemStatus::Completed, _) if refines && draft.redo => redo::redo(tx, id, draft, merged),
        (ItemStatus::InProgress | ItemStatus::Waiting, _) if refines && draft.redo => {
            note(tx, None, format!("Item {id} is still under way: it was not begun again."));
        }
        (ItemStatus::Completed | ItemStatus::InProgress | ItemStatus::Waiting, _) => {}
        (ItemStatus::Pending, Some(ItemStatus::Cancelled)) => {
            move_status(tx, id, ItemStatus::Cancelled, merged, Some("cancelled by the plan"));
        }
        (ItemStatus::Pending, _) => redefine(tx, id, draft, merged),
        (ItemStatus::Failed | ItemStatus::Cancelled, status)
            if refines && (draft.redo || status == Some(ItemStatus::Pending)) =>
        {
            redefine(tx, id, draft, merged);
            move_status(tx, id, ItemStatus::Pending, merged, None);
        }
        (ItemStatus::Failed | ItemStatus::Cancelled, _) => {}
    }
}

/// Takes over the fields that the draft names.
pub(super) fn redefine(tx: &mut Tx<'_>, id: &ItemId, draft: &ItemDraft, merged: &mut Merged) {
    let Some(item) = tx.state.list.get_mut(id) else { return };
    let before = item.def.clone();
    let def = &mut item.def;
    let ids = |list: &Vec<String>| list.iter().map(|id| id.as_str().into()).collect();
    def.description = draft.description.clone().unwrap_or_else(|| before.description.clone());
    def.dependencies = draft.dependencies.as_ref().map_or_else(|| before.dependencies.clone(), ids);
    def.step_type = draft.step_type.or(before.step_type);
    def.required_tools = draft.required_tools.clone().unwrap_or_else(|| before.required_tools.clone());
    def.expected_outcome = draft.expected_outcome.clone().or_else(|| before.expected_outcome.clone());
    def.tool_validation_mode = draft.tool_validation_mode.or(before.tool_validation_mode);
    if *def != before {
        merged.is_relinked |= def.dependencies != before.dependencies;
        merged.modified(id);
    }
}

/// Moves the status now and leaves it to be recorded later.
pub(super) fn move_status(tx: &mut Tx<'_>, id: &ItemId, to: ItemStatus, merged: &mut Merged, reason: Option<&str>) {
    let Some(from) = tx.state.item(id).map(|item| item.progress.status) else { return };
    let (now, run) = (tx.stamp.now, tx.state.active_run().run_id.clone());
    tx.change_progress(id, |progress| {
        progress.updated = now;
        progress.run = Some(run);
        progress.reason = reason.map(str::to_owned);
        progress.edited_away = to == ItemStatus::Cancelled;
        if to == ItemStatus::Pending {
            progress.result = None;
            progress.validation = None;
        }
    });
    tx.state.list.set_status(id, to);
    merged.modified(id);
    merged.moved.push((id.clone(), from));
}

/// Moves the planVersion if anything changed, and fills in the items as they are now.
fn snapshot(tx: &mut Tx<'_>, mut merged: Merged) -> Merged {
    if merged.changes.is_empty() {
        return merged;
    }
    tx.state.head.plan_version += 1;
    let changes = std::mem::take(&mut merged.changes);
    merged.changes = changes.into_iter().map(|change| plan::change(tx, change.kind, &change.item_id)).collect();
    merged
}

pub(super) fn record_moved(tx: &mut Tx<'_>, merged: &Merged) {
    for (id, from) in &merged.moved {
        item::record_status(tx, id, *from);
    }
}

/// It was edited by a person, or removed, after the model had seen it: the newer wins.
fn is_overruled(state: &State, id: &ItemId, shown: i64) -> bool {
    let edited = state.item(id).and_then(|item| item.def.edited);
    let removed = state.removed.get(id).copied();
    edited.into_iter().chain(removed).any(|version| version > shown)
}

/// Told to the next prompt of the one whose change was dropped.
pub(super) fn note(tx: &mut Tx<'_>, by: Option<&ItemId>, note: String) {
    match by {
        Some(item) => {
            tx.change_loop(item, |work| push_note(&mut work.notes, note));
        }
        None => push_note(&mut tx.active().notes, note),
    }
}

impl State {
    /// Whether the active run has had its plan.
    pub(super) fn is_mid_run(&self) -> bool {
        self.head.active.as_ref().is_some_and(|active| active.planned)
    }
}

fn push_note(notes: &mut Vec<String>, note: String) {
    if notes.len() < NOTES {
        notes.push(note);
    }
}

impl Merged {
    fn modified(&mut self, id: &ItemId) {
        self.note(ChangeType::Modified, id);
    }

    /// What happened to an item; how it looks afterwards is filled in at the end.
    pub fn note(&mut self, kind: ChangeType, id: &ItemId) {
        if !self.changes.iter().any(|change| change.item_id == *id) {
            self.changes.push(TodoItemChange {
                kind,
                item_id: id.clone(),
                timestamp: 0,
                item: None,
                previous_item: None,
            });
        }
    }
}

/// A new item that is said to be over already is none.
pub(super) fn is_wanted(draft: &ItemDraft) -> bool {
    !matches!(draft.status, Some(ItemStatus::Cancelled | ItemStatus::Failed))
}
