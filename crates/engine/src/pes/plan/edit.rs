//! People edit the plan: pending items only, and only so that the plan can still be carried out.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::domain::facts::{PlanSource, PlanUpdateBody};
use crate::domain::fault::{Code, Fault, Pointed};
use crate::domain::ids::ItemId;
use crate::domain::observation::RecordMetadata;
use crate::domain::plan::{ChangeType, FILLED, ItemStatus, TodoItem, TodoItemChange};
use crate::domain::pointer::Pointer;
use crate::domain::settings::RunSettings;
use crate::parse;
use crate::pes::plan::change::{self, PlanMerge};
use crate::pes::plan::forget;
use crate::pes::state::{Definition, Item, Progress, RunPhase, Shape, State};
use crate::pes::tx::{EventOutcome, HandlerResult, Tx};

/// How many mistakes a refusal lists.
const MAX_LISTED_MISTAKES: usize = 50;

/// The members of an item that a person may edit.
#[derive(Debug, PartialEq)]
struct EditedItem {
    /// Its time and its versions are left out: 0 or `None`.
    def: Definition,
    status: ItemStatus,
}

/// Replaces the list by the one that a person sent as a whole. `next`: the settings of the next run, used if none is
/// active.
pub(crate) fn edit(tx: &mut Tx<'_>, expected: i64, list: Vec<Value>, by: &str, next: &RunSettings) -> HandlerResult {
    check_editable(tx, expected, list.len())?;
    let edited = read_list(list)?;
    check_protected(tx.state, &edited)?;
    let mut mistakes = Mistakes::default();
    check_new_ids(tx.state, &edited, &mut mistakes);
    check_statuses(tx.state, &edited, &mut mistakes);
    check_graph(&edited, &mut mistakes);
    check_tools(tx, &edited, next, &mut mistakes);
    mistakes.refuse()?;
    let before: Vec<ItemId> = tx.state.list.iter().map(|item| item.def.id.clone()).collect();
    let is_same = |(item, edited): (&Item, &EditedItem)| editable_part(item) == *edited;
    if before.len() == edited.len() && tx.state.list.iter().zip(&edited).all(is_same) {
        return Ok(EventOutcome::Ignored);
    }
    check_work_left(tx.state, &edited)?;
    let merged = rewrite(tx, edited);
    let order = changed_order(tx.state, &before);
    let update = change::new_update(tx, PlanSource::User, &merged.changes);
    change::record_update(tx, None, PlanUpdateBody { order, ..update });
    tx.annotate(RecordMetadata { by: Some(by.to_owned()), ..RecordMetadata::default() });
    change::record_status_changes(tx, &merged);
    tx.add_requesters(&[by.to_owned()]);
    Ok(EventOutcome::Applied)
}

fn check_editable(tx: &Tx<'_>, expected: i64, len: usize) -> Result<(), Fault> {
    if tx.state.shape == Shape::Single {
        return Err(Fault::new(Code::PlanNotEditable, "This thread's agent core works without a plan."));
    }
    let version = tx.state.head.plan_version;
    if expected != version {
        let detail = format!("The plan is at version {version}; read it again.");
        return Err(Fault::new(Code::PreconditionFailed, detail).with("planVersion", version));
    }
    match tx.state.phase() {
        RunPhase::Idle | RunPhase::Executing => {}
        RunPhase::Planning | RunPhase::Refining | RunPhase::Synthesizing => {
            return Err(Fault::new(
                Code::PlanNotEditable,
                "The plan is being made or summed up; try again after that.",
            ));
        }
    }
    let most = tx.world.limits.items_per_plan;
    if len > most {
        return Err(Fault::new(Code::TooManyItems, format!("A plan has at most {most} items.")));
    }
    Ok(())
}

/// Models write ids without white space, so an item whose id has some would be taken for another item.
fn check_new_ids(state: &State, edited: &[EditedItem], mistakes: &mut Mistakes) {
    for (at, edited) in edited.iter().enumerate().filter(|(_, edited)| state.item(&edited.def.id).is_none()) {
        let clean = parse::clean_id(edited.def.id.as_str());
        if clean != edited.def.id.as_str() {
            let better = if clean.is_empty() { String::new() } else { format!("; write `{clean}`") };
            mistakes.add(at, "id", format!("an id has no white space{better}"));
        }
    }
}

/// Items that are finished or in progress must be in the new list unchanged.
fn check_protected(state: &State, edited: &[EditedItem]) -> Result<(), Fault> {
    let by_id: BTreeMap<&ItemId, &EditedItem> = edited.iter().map(|edited| (&edited.def.id, edited)).collect();
    for item in state.list.iter() {
        let code = match item.progress.status {
            ItemStatus::Pending => continue,
            ItemStatus::Completed | ItemStatus::Failed | ItemStatus::Cancelled => Code::FinishedItem,
            ItemStatus::InProgress | ItemStatus::Waiting => Code::ItemInProgress,
        };
        if by_id.get(&item.def.id).is_none_or(|edited| **edited != editable_part(item)) {
            return Err(Fault::new(code, format!("Item {} cannot be edited any more.", item.def.id)));
        }
    }
    Ok(())
}

/// During a run, a list with nothing to do is no plan, whether a planner or a person makes it, unless something was done
/// already.
fn check_work_left(state: &State, edited: &[EditedItem]) -> Result<(), Fault> {
    let is_work_left = edited.iter().any(|edited| !edited.status.is_settled());
    if is_work_left || state.run.is_none() || !state.is_nothing_done() {
        return Ok(());
    }
    let why = if state.is_review_open() {
        "leaves nothing to do; reject the plan to end the run, or with a reason to have another plan made"
    } else {
        "leaves nothing to do; cancel the run to end it"
    };
    Err(Fault::new(Code::PlanInvalid, format!("The edited plan {why}.")).at("", why))
}

/// A pending item can stay pending or be cancelled, and a new one is pending.
fn check_statuses(state: &State, edited: &[EditedItem], mistakes: &mut Mistakes) {
    for (at, edited) in edited.iter().enumerate() {
        let may_be = match state.item(&edited.def.id).map(|item| item.progress.status) {
            None => edited.status == ItemStatus::Pending,
            Some(ItemStatus::Pending) => matches!(edited.status, ItemStatus::Pending | ItemStatus::Cancelled),
            Some(_) => true,
        };
        if !may_be {
            mistakes.add(at, "status", "only pending or cancelled");
        }
    }
}

fn check_tools(tx: &Tx<'_>, edited: &[EditedItem], next: &RunSettings, mistakes: &mut Mistakes) {
    let settings = tx.state.run.as_ref().map_or(next, |run| &*run.settings);
    let tools = tx.world.tools.offered(settings);
    for (at, edited) in edited.iter().enumerate().filter(|(_, edited)| edited.status == ItemStatus::Pending) {
        for tool in edited.def.required_tools.iter().filter(|tool| !tools.iter().any(|spec| spec.name == **tool)) {
            mistakes.add(at, "requiredTools", format!("{tool} is not enabled here"));
        }
    }
}

/// The list's order, if it does not follow from the changes: they leave items where they are and add new ones at the
/// end.
fn changed_order(state: &State, before: &[ItemId]) -> Option<Vec<ItemId>> {
    let known: BTreeSet<&ItemId> = before.iter().collect();
    let kept = before.iter().filter(|id| state.item(id).is_some());
    let after: Vec<&ItemId> = state.list.iter().map(|item| &item.def.id).collect();
    let implied = kept.chain(after.iter().copied().filter(|id| !known.contains(id)));
    let is_implied = after.iter().copied().eq(implied);
    (!is_implied).then(|| after.into_iter().cloned().collect())
}

fn rewrite(tx: &mut Tx<'_>, edited: Vec<EditedItem>) -> PlanMerge {
    let version = tx.state.head.plan_version + 1;
    let mut merged = PlanMerge::default();
    let mut before: BTreeMap<ItemId, Item> = BTreeMap::new();
    tx.state.list.rebuild(|list| before = list.drain(..).map(|item| (item.def.id.clone(), item)).collect());
    let mut after = Vec::with_capacity(edited.len());
    for (at, edited) in edited.into_iter().enumerate() {
        let known = before.remove(&edited.def.id);
        after.push(rewrite_item(tx, at as i64, edited, known, version, &mut merged));
    }
    tx.state.list.rebuild(|list| *list = after);
    for item in before.values() {
        forget::remove(tx, item, version, &mut merged);
    }
    tx.state.head.plan_version = version;
    let changes = std::mem::take(&mut merged.changes);
    merged.changes = changes.into_iter().map(|change| fill_in(tx, change)).collect();
    merged
}

fn rewrite_item(
    tx: &mut Tx<'_>,
    ord: i64,
    edited: EditedItem,
    known: Option<Item>,
    version: i64,
    merged: &mut PlanMerge,
) -> Item {
    let Some(mut item) = known else {
        merged.note(ChangeType::Added, &edited.def.id);
        let def = Definition { created: tx.stamp.now, since: version, edited: Some(version), ..edited.def };
        let progress = Progress { updated: tx.stamp.now, ..Progress::default() };
        return Item { ord, def, progress, calls: Vec::new(), turns: Vec::new() };
    };
    let is_same = editable_part(&item) == edited;
    if is_same && item.ord == ord {
        return item;
    }
    item.ord = ord;
    if is_same {
        tx.mark_definition_changed(&item.def.id);
        return item;
    }
    merged.note(ChangeType::Modified, &edited.def.id);
    if edited.status != item.progress.status {
        merged.status_changes.push((edited.def.id.clone(), item.progress.status));
        item.progress.status = edited.status;
        item.progress.edited_away = edited.status == ItemStatus::Cancelled;
        item.progress.reason = Some("cancelled by a person".into());
    }
    item.progress.updated = tx.stamp.now;
    let Definition { created, since, .. } = item.def;
    item.def = Definition { created, since, edited: Some(version), ..edited.def };
    item
}

fn fill_in(tx: &mut Tx<'_>, change: TodoItemChange) -> TodoItemChange {
    match change.kind {
        ChangeType::Added | ChangeType::Modified => change::item_change(tx, change.kind, &change.item_id),
        ChangeType::Removed => TodoItemChange { timestamp: tx.stamp.now, ..change },
    }
}

fn editable_part(item: &Item) -> EditedItem {
    let def = Definition { created: 0, since: 0, edited: None, ..item.def.clone() };
    EditedItem { def, status: item.progress.status }
}

fn read_list(list: Vec<Value>) -> Result<Vec<EditedItem>, Fault> {
    let (mut seen, mut mistakes) = (BTreeSet::new(), Mistakes::default());
    let mut edited = Vec::with_capacity(list.len());
    for (at, value) in list.into_iter().enumerate() {
        match read_item(value) {
            Ok(item) => {
                if !seen.insert(item.def.id.clone()) {
                    mistakes.add(at, "id", "this id occurs twice");
                }
                edited.push(item);
            }
            Err((field, why)) => mistakes.add(at, &field, why),
        }
    }
    mistakes.refuse()?;
    Ok(edited)
}

/// `Err`: the member that is wrong, and why; empty: the item itself.
fn read_item(value: Value) -> Result<EditedItem, (String, String)> {
    let wrong = |field: &str, why: &str| Err((field.to_owned(), why.to_owned()));
    let Value::Object(mut map) = value else { return wrong("", "an item is an object") };
    map.retain(|key, _| !FILLED.contains(&key.as_str()));
    for key in ["createdTimestamp", "updatedTimestamp"] {
        map.insert(key.into(), 0.into());
    }
    // An empty id or description is refused below, after unknown fields, which may be misspelt ones.
    for (key, absent) in [("status", "pending"), ("id", ""), ("description", "")] {
        map.entry(key).or_insert_with(|| absent.into());
    }
    let todo: TodoItem = serde_json::from_value(Value::Object(map)).map_err(|e| (String::new(), e.to_string()))?;
    if let Some(unknown) = todo.other.keys().next() {
        return wrong(unknown, "there is no such field");
    }
    let id = todo.id.as_str();
    if id.is_empty() || id.len() > 128 || id.chars().any(char::is_control) {
        return wrong("id", "1 to 128 characters");
    }
    if todo.description.trim().is_empty() {
        return wrong("description", "must not be empty");
    }
    let def = Definition {
        id: todo.id,
        description: todo.description,
        dependencies: todo.dependencies,
        step_type: todo.step_type,
        required_tools: todo.required_tools,
        expected_outcome: todo.expected_outcome,
        tool_validation_mode: todo.tool_validation_mode,
        created: 0,
        since: 0,
        edited: None,
    };
    Ok(EditedItem { def, status: todo.status })
}

/// Checks that every dependency of an unfinished item is in the list, and that there is no cycle. A finished item waits
/// for nothing.
fn check_graph(edited: &[EditedItem], mistakes: &mut Mistakes) {
    let index: BTreeMap<&ItemId, usize> = edited.iter().enumerate().map(|(at, item)| (&item.def.id, at)).collect();
    let mut unmet = vec![0usize; edited.len()];
    let mut dependants = vec![Vec::new(); edited.len()];
    for (at, item) in edited.iter().enumerate().filter(|(_, item)| !item.status.is_settled()) {
        for need in &item.def.dependencies {
            let Some(on) = index.get(need) else {
                mistakes.add(at, "dependencies", format!("there is no item {need}"));
                continue;
            };
            dependants[*on].push(at);
            unmet[at] += 1;
        }
    }
    let mut free: Vec<usize> = (0..edited.len()).filter(|at| unmet[*at] == 0).collect();
    while let Some(at) = free.pop() {
        for next in &dependants[at] {
            unmet[*next] -= 1;
            if unmet[*next] == 0 {
                free.push(*next);
            }
        }
    }
    if let Some(at) = unmet.iter().position(|left| *left > 0) {
        mistakes.add(at, "dependencies", "they lead back to the item itself");
    }
}

/// The mistakes in an edited list.
#[derive(Default)]
struct Mistakes(Vec<Pointed>);

impl Mistakes {
    /// An empty field means the item itself.
    fn add(&mut self, at: usize, field: &str, why: impl Into<String>) {
        if self.0.len() < MAX_LISTED_MISTAKES {
            let place = at.to_string();
            let pointer = Pointer::of([place.as_str(), field].into_iter().filter(|name| !name.is_empty()));
            self.0.push(Pointed { pointer: pointer.to_string(), detail: why.into() });
        }
    }

    fn refuse(self) -> Result<(), Fault> {
        if self.0.is_empty() {
            return Ok(());
        }
        Err(Fault { errors: self.0, ..Fault::new(Code::PlanInvalid, "The edited plan is not valid.") })
    }
}
