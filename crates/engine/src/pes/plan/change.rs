//! Changes of items, as `PLAN` and `PLAN_UPDATE` record them: what planners, steps and people have in common.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::domain::facts::{IntentBody, PlanSource, PlanUpdateBody};
use crate::domain::ids::ItemId;
use crate::domain::plan::{ChangeType, ItemStatus, StepType, TodoItemChange};
use crate::history::view;
use crate::parse::{self, ItemDraft};
use crate::pes::settle::item;
use crate::pes::state::{Definition, Item, Progress, State, text};
use crate::pes::tx::Tx;

const MAX_INTENT_CHARS: usize = 500;
/// How many dropped changes a prompt lists.
const MAX_NOTES: usize = 20;

/// The result of a merge.
#[derive(Default)]
pub(crate) struct PlanMerge {
    pub changes: Vec<TodoItemChange>,
    /// Items whose status changed, with the earlier one; recorded after the plan.
    pub status_changes: Vec<(ItemId, ItemStatus)>,
    /// Dependencies changed: the list must be indexed again.
    pub has_new_dependencies: bool,
}

impl PlanMerge {
    fn note_modified(&mut self, id: &ItemId) {
        self.note(ChangeType::Modified, id);
    }

    /// Adds a change of an item, once; the item as it is afterwards is filled in at the end.
    pub fn note(&mut self, kind: ChangeType, id: &ItemId) {
        if !self.changes.iter().any(|change| change.item_id == *id) {
            self.changes.push(TodoItemChange::new(kind, id.clone(), 0));
        }
    }
}

/// The parser removes white space from ids that models write. This restores the ids of existing items that contain
/// some.
pub(crate) fn restore_ids(state: &State, drafts: &mut [ItemDraft]) {
    let listed = state.list.iter().map(|item| &item.def.id).chain(state.removed.keys());
    let unlike: BTreeMap<String, &ItemId> = listed
        .map(|id| (parse::clean_id(id.as_str()), id))
        .filter(|(clean, id)| !clean.is_empty() && clean != id.as_str() && state.item(&clean.as_str().into()).is_none())
        .collect();
    if unlike.is_empty() {
        return;
    }
    let named = drafts.iter_mut().flat_map(|draft| draft.dependencies.iter_mut().flatten().chain([&mut draft.id]));
    for name in named {
        if let Some(id) = unlike.get(name.as_str()) {
            *name = id.to_string();
        }
    }
}

/// Gives items without an id a number: that of their position, or the next one that no item has or had in this run, so
/// that they are not merged into another item.
pub(crate) fn name_items(state: &State, drafts: &mut [ItemDraft]) {
    let mut taken: BTreeSet<String> = drafts.iter().map(|draft| draft.id.clone()).collect();
    let mut last = 0;
    for (at, draft) in drafts.iter_mut().enumerate().filter(|(_, draft)| draft.id.is_empty()) {
        let is_free = |id: &String| {
            let known = ItemId::from(id.as_str());
            !taken.contains(id) && state.item(&known).is_none() && !state.removed.contains_key(&known)
        };
        let free = (last.max(at) + 1..).map(|n| (n, n.to_string())).find(|(_, id)| is_free(id));
        (last, draft.id) = free.expect("numbers do not run out");
        taken.insert(draft.id.clone());
    }
}

/// Sets and records the intent, if there is one.
pub(crate) fn set_intent(tx: &mut Tx<'_>, intent: Option<&str>, item: Option<&ItemId>) {
    let Some(intent) = intent.map(str::trim).filter(|intent| !intent.is_empty()) else { return };
    tx.state.head.intent = text::cut(intent, MAX_INTENT_CHARS);
    let body = IntentBody { intent: tx.state.head.intent.clone() };
    tx.record(item, "Intent", body);
}

/// Stores the text of the plan. `false`: there is no new one.
pub(crate) fn set_text(tx: &mut Tx<'_>, plan: Option<&str>) -> bool {
    let Some(plan) = plan.filter(|plan| !plan.trim().is_empty()) else { return false };
    let id = format!("plan-{}", tx.mint.hex());
    tx.state.head.plan = tx.store(id, Value::String(plan.to_owned()));
    true
}

/// A new item, as a planner wrote it.
pub(crate) fn new_item(tx: &Tx<'_>, ord: i64, draft: &ItemDraft) -> Item {
    let def = Definition {
        id: draft.id.as_str().into(),
        description: draft.description.clone().unwrap_or_else(|| draft.id.clone()),
        dependencies: draft.dependencies.iter().flatten().map(|id| id.as_str().into()).collect(),
        step_type: draft.step_type.or_else(|| implied_step_type(draft)),
        required_tools: draft.required_tools.clone().unwrap_or_default(),
        expected_outcome: draft.expected_outcome.clone(),
        tool_validation_mode: draft.tool_validation_mode,
        created: tx.stamp.now,
        since: tx.state.head.plan_version,
        edited: None,
    };
    let run = tx.state.run.as_ref().map(|run| run.run_id.clone());
    let progress = Progress { updated: tx.stamp.now, run, ..Progress::default() };
    Item { ord, def, progress, calls: Vec::new(), turns: Vec::new() }
}

/// A change of one item as `PLAN` and `PLAN_UPDATE` record it; marks the item to be written.
pub(crate) fn item_change(tx: &mut Tx<'_>, kind: ChangeType, id: &ItemId) -> TodoItemChange {
    tx.mark_definition_changed(id);
    let item = tx.state.item(id).map(view::todo_item);
    TodoItemChange { item, ..TodoItemChange::new(kind, id.clone(), tx.stamp.now) }
}

/// A `PLAN_UPDATE` with these changes.
pub(crate) fn new_update(tx: &Tx<'_>, source: PlanSource, changes: &[TodoItemChange]) -> PlanUpdateBody {
    let plan_version = tx.state.head.plan_version;
    PlanUpdateBody { plan_version, source, changes: Some(changes.to_vec()), order: None, plan: None }
}

/// Records a `PLAN_UPDATE`.
pub(crate) fn record_update(tx: &mut Tx<'_>, item: Option<&ItemId>, update: PlanUpdateBody) {
    tx.record(item, "Plan changed", update);
}

fn implied_step_type(draft: &ItemDraft) -> Option<StepType> {
    let has_tools = draft.required_tools.as_ref().is_some_and(|tools| !tools.is_empty());
    Some(if has_tools { StepType::Tool } else { StepType::Reasoning })
}

/// Applies the fields that the draft has.
pub(crate) fn redefine(tx: &mut Tx<'_>, id: &ItemId, draft: &ItemDraft, merged: &mut PlanMerge) {
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
        merged.has_new_dependencies |= def.dependencies != before.dependencies;
        merged.note_modified(id);
    }
}

/// Changes the status now; the change is recorded later.
pub(crate) fn change_status(
    tx: &mut Tx<'_>,
    id: &ItemId,
    to: ItemStatus,
    merged: &mut PlanMerge,
    reason: Option<&str>,
) {
    let Some(from) = tx.state.item(id).map(|item| item.progress.status) else { return };
    let (now, run) = (tx.stamp.now, tx.state.active_run().run_id.clone());
    tx.change_progress(id, |progress| {
        progress.updated = now;
        progress.run = Some(run);
        progress.reason = reason.map(str::to_owned);
        progress.edited_away = to == ItemStatus::Cancelled;
        if to == ItemStatus::Pending {
            progress.result = None;
            progress.excerpt = None;
            progress.validation = None;
        }
    });
    tx.state.list.set_status(id, to);
    merged.note_modified(id);
    merged.status_changes.push((id.clone(), from));
}

/// Records the changed statuses, after the plan was recorded.
pub(crate) fn record_status_changes(tx: &mut Tx<'_>, merged: &PlanMerge) {
    for (id, from) in &merged.status_changes {
        item::record_status(tx, id, *from);
    }
}

/// Adds a note to the next prompt of the model whose change was dropped.
pub(crate) fn note(tx: &mut Tx<'_>, by: Option<&ItemId>, note: String) {
    match by {
        Some(item) => {
            tx.change_loop(item, |work| push_note(&mut work.notes, note));
        }
        None => push_note(&mut tx.active().notes, note),
    }
}

fn push_note(notes: &mut Vec<String>, note: String) {
    if notes.len() < MAX_NOTES {
        notes.push(note);
    }
}

/// Whether a new item is to be added: not if it is marked as cancelled or failed.
pub(crate) fn is_wanted(draft: &ItemDraft) -> bool {
    !matches!(draft.status, Some(ItemStatus::Cancelled | ItemStatus::Failed))
}
