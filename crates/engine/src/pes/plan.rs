//! Planning: the first reply of a run becomes a todo list, a direct answer, or a request to say it again.

use super::state::State;
use super::{execute, finish, forget, names, refine, review};
use std::collections::BTreeSet;

use serde_json::Value;

use super::execute::Replied;
use super::record::{cut, to_value};
use super::refine::{Merged, is_wanted};
use super::state::{Definition, Item, ModelCall, Phase, Progress, Repair};
use super::tx::Tx;
use crate::domain::fault::Code;
use crate::domain::ids::ItemId;
use crate::domain::model::{self, ModelReply};
use crate::domain::observation::ObservationType;
use crate::domain::plan::{ChangeType, StepType, TodoItemChange};
use crate::parse::{self, ItemDraft, PlanDraft};

/// How often a reply that cannot be used is asked for again.
pub(super) const REPAIRS: u32 = 2;

const TITLE_WORDS: usize = 10;
const INTENT_CHARS: usize = 500;
const REFUSAL_CHARS: usize = 2_000;

/// Where a `PLAN_UPDATE` comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Planner,
    Refinement,
    Agent,
    User,
}

impl Source {
    fn as_str(self) -> &'static str {
        match self {
            Source::Planner => "planner",
            Source::Refinement => "refinement",
            Source::Agent => "agent",
            Source::User => "user",
        }
    }
}

pub(super) fn replied(tx: &mut Tx<'_>, replied: Replied<'_>) {
    let text = replied.text.clone();
    let mut draft = match usable(tx, replied.reply) {
        Ok(draft) => draft,
        Err(fault) => return repair(tx, replied.call, text, fault, false),
    };
    name_items(tx.state, &mut draft.items);
    if let Some(fault) = names::unknown(tx, replied.call, &draft.items) {
        return repair(tx, replied.call, text, fault, true);
    }
    refine::notes_were_shown(tx);
    record_heading(tx, &draft);
    if let (true, Some(answer)) = (draft.items.is_empty(), &draft.answer) {
        let answer = answer.clone();
        record(tx, &draft, text, &[]);
        return finish::answer_directly(tx, answer);
    }
    if let (true, Some(reason)) = (draft.items.is_empty(), &draft.refuse) {
        return refuse(tx, cut(reason, REFUSAL_CHARS));
    }
    let (source, merged) = match tx.state.phase() {
        Phase::Refining => (Source::Refinement, refine::merge(tx, &draft, replied.call.shown)),
        Phase::Idle | Phase::Planning | Phase::Executing | Phase::Synthesizing => {
            (Source::Planner, first_list(tx, &draft))
        }
    };
    record(tx, &draft, text, &merged.changes);
    if source == Source::Planner || !merged.changes.is_empty() {
        record_update_of(tx, source);
    }
    refine::record_moved(tx, &merged);
    refine::refined(tx);
    review::ask_if_wanted(tx);
    // What a person must see first begins with a step of its own.
    if let (false, true, Some(item)) = (draft.calls.is_empty(), tx.state.is_reviewed(), draft.items.first()) {
        let id = ItemId::from(item.id.as_str());
        execute::begin_with_calls(tx, &id, replied, draft.calls);
    }
}

/// Only a run that has done nothing yet can be refused, and one whose every message the planner has seen; else it is
/// an answer to what was said so far.
fn refuse(tx: &mut Tx<'_>, reason: String) {
    match tx.state.is_mid_run() || tx.state.is_refinement_due() {
        true => finish::answer_directly(tx, reason),
        false => finish::fail(tx, Code::TaskRefused, reason, model::Phase::Planning),
    }
}

fn usable(tx: &Tx<'_>, reply: &ModelReply) -> Result<PlanDraft, String> {
    let mut draft = parse::plan(reply).map_err(|fault| fault.0)?;
    let most = tx.world.limits.items_per_plan;
    if draft.items.len() > most {
        return Err(format!("The todoList has {} items; at most {most} are allowed.", draft.items.len()));
    }
    let with_new = forget::least_items_with(tx, &draft.items);
    if with_new > most {
        return Err(format!("With the new items the todoList has {with_new}; at most {most} are allowed."));
    }
    let steered = tx.state.phase() == Phase::Refining;
    if !steered {
        draft.items.retain(is_wanted);
    }
    let is_silent = draft.answer.is_none() && draft.refuse.is_none();
    if draft.items.is_empty() && is_silent && !steered {
        return Err("The todoList is empty and there is no answer; give one of them.".into());
    }
    Ok(draft)
}

/// Items that the model did not name get a number: that of their place, or the next that nobody has or had in this
/// run, so that they are not merged into another.
pub(super) fn name_items(state: &State, drafts: &mut [ItemDraft]) {
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

fn repair(tx: &mut Tx<'_>, call: &ModelCall, reply: Value, fault: String, names: bool) {
    let round = repairs(call) + 1;
    if round > REPAIRS {
        let message = format!("The model's plan could not be read: {}", cut(&fault, 500));
        if tx.state.is_mid_run() {
            return refine::failed(tx, Code::PlanUnreadable, &message);
        }
        return finish::fail(tx, Code::PlanUnreadable, message, model::Phase::Planning);
    }
    let names = names || call.repair.as_ref().is_some_and(|before| before.names);
    let repair = Some(Repair { round, reply, fault, names });
    tx.active().model = Some(ModelCall { repair, ..call.again(call.iteration + 1) });
}

fn record_heading(tx: &mut Tx<'_>, draft: &PlanDraft) {
    set_intent(tx, draft.intent.as_deref(), None);
    if let Some(title) = draft.title.as_deref().filter(|title| !title.trim().is_empty()) {
        let title = title.split_whitespace().take(TITLE_WORDS).collect::<Vec<_>>().join(" ");
        let title = cut(&title, 200);
        tx.state.head.title = title.clone();
        tx.title = Some(title.clone());
        tx.record(ObservationType::Title, None, title.clone(), serde_json::json!({ "title": title }));
    }
}

pub(super) fn set_intent(tx: &mut Tx<'_>, intent: Option<&str>, item: Option<&ItemId>) {
    let Some(intent) = intent.map(str::trim).filter(|intent| !intent.is_empty()) else { return };
    tx.state.head.intent = cut(intent, INTENT_CHARS);
    let body = serde_json::json!({ "intent": tx.state.head.intent });
    tx.record(ObservationType::Intent, item, "Intent", body);
}

/// `false`: there is nothing new to say.
pub(super) fn set_text(tx: &mut Tx<'_>, plan: Option<&str>) -> bool {
    let Some(plan) = plan.filter(|plan| !plan.trim().is_empty()) else { return false };
    let id = format!("plan-{}", tx.mint.hex());
    tx.state.head.plan = tx.store(id, Value::String(plan.to_owned()));
    true
}

/// The list of a thread that had none.
fn first_list(tx: &mut Tx<'_>, draft: &PlanDraft) -> Merged {
    tx.state.head.plan_version += 1;
    let items: Vec<Item> = draft.items.iter().enumerate().map(|(at, item)| new_item(tx, at as i64, item)).collect();
    let ids: Vec<ItemId> = items.iter().map(|item| item.def.id.clone()).collect();
    tx.state.list.rebuild(|list| list.extend(items));
    let changes = ids.iter().map(|id| change(tx, ChangeType::Added, id)).collect();
    Merged { changes, ..Merged::default() }
}

pub(super) fn new_item(tx: &Tx<'_>, ord: i64, draft: &ItemDraft) -> Item {
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

/// A change of one item as `PLAN` and `PLAN_UPDATE` record it; marks the item as to be written.
pub(super) fn change(tx: &mut Tx<'_>, kind: ChangeType, id: &ItemId) -> TodoItemChange {
    tx.definition_changed(id);
    let item = tx.state.item(id).map(super::view::todo_item);
    TodoItemChange { kind, item_id: id.clone(), timestamp: tx.stamp.now, item, previous_item: None }
}

fn record(tx: &mut Tx<'_>, draft: &PlanDraft, raw: Value, changes: &[TodoItemChange]) {
    set_text(tx, draft.plan.as_deref());
    let plan = match &tx.state.head.plan {
        Value::Null => Value::String(String::new()),
        plan => plan.clone(),
    };
    let body = serde_json::json!({
        "plan": plan, "planVersion": tx.state.head.plan_version, "rawOutput": raw,
        "changes": to_value(&changes),
    });
    tx.record(ObservationType::Plan, None, "Plan", body);
}

/// The `PLAN_UPDATE` whose changes stand in the `PLAN` before it.
fn record_update_of(tx: &mut Tx<'_>, source: Source) {
    let body = serde_json::json!({ "planVersion": tx.state.head.plan_version, "source": source.as_str() });
    tx.record(ObservationType::PlanUpdate, None, "Plan changed", body);
}

pub(super) fn record_update(tx: &mut Tx<'_>, source: Source, item: Option<&ItemId>, changes: &[TodoItemChange]) {
    let body = serde_json::json!({
        "planVersion": tx.state.head.plan_version, "source": source.as_str(), "changes": to_value(&changes),
    });
    tx.record(ObservationType::PlanUpdate, item, "Plan changed", body);
}

/// How often this reply was asked for again.
pub(super) fn repairs(call: &ModelCall) -> u32 {
    call.repair.as_ref().map_or(0, |repair| repair.round)
}

fn implied_step_type(draft: &ItemDraft) -> Option<StepType> {
    let has_tools = draft.required_tools.as_ref().is_some_and(|tools| !tools.is_empty());
    Some(if has_tools { StepType::Tool } else { StepType::Reasoning })
}
