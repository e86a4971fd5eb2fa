//! Planning: the first reply of a run becomes a todo list, a direct answer, or a request to repair the reply.

use serde_json::Value;

use crate::domain::facts::{PlanBody, PlanSource, PlanUpdateBody, TitleBody};
use crate::domain::fault::Code;
use crate::domain::ids::ItemId;
use crate::domain::model::ModelReply;
use crate::domain::plan::{ChangeType, TodoItemChange};
use crate::parse::{self, CallDraft, PlanDraft};
use crate::pes::plan::change::{self, PlanMerge};
use crate::pes::plan::{forget, merge, names, refine, review};
use crate::pes::state::{Item, MAX_REPAIRS, ModelCall, ReceivedReply, Repair, RunPhase, State, model_call, text};
use crate::pes::tx::Tx;

const MAX_TITLE_WORDS: usize = 10;
const MAX_REFUSAL_CHARS: usize = 2_000;

/// What a planner's reply means for the run.
pub(crate) enum PlanReplyOutcome {
    /// There is a plan, or the planner is asked again.
    Continues,
    /// There is a plan, and the reply has the first calls of this item.
    FirstStep { item: ItemId, calls: Vec<CallDraft> },
    /// This is the answer; no plan is needed.
    Answers(String),
    /// There is no plan, so the run fails.
    Fails { code: Code, message: String },
}

/// Handles the planner's reply: a list, or changes of the existing one.
pub(crate) fn on_reply(tx: &mut Tx<'_>, replied: &ReceivedReply<'_>) -> PlanReplyOutcome {
    let text = replied.text.clone();
    let mut draft = match parse_usable(tx, replied.reply) {
        Ok(draft) => draft,
        Err(fault) => return repair(tx, replied.call, text, fault, false),
    };
    change::name_items(tx.state, &mut draft.items);
    if let Some(fault) = names::unknown(tx, replied.call, &draft.items) {
        return repair(tx, replied.call, text, fault, true);
    }
    refine::mark_planner_informed(tx);
    record_heading(tx, &draft);
    if let (true, Some(answer)) = (draft.items.is_empty(), &draft.answer) {
        let answer = answer.clone();
        record(tx, &draft, text, &[]);
        return PlanReplyOutcome::Answers(answer);
    }
    if let (true, Some(reason)) = (draft.items.is_empty(), &draft.refuse) {
        return refusal(tx.state, text::cut(reason, MAX_REFUSAL_CHARS));
    }
    let (source, merged) = match tx.state.phase() {
        RunPhase::Refining => (PlanSource::Refinement, merge::merge(tx, &draft, replied.call.shown)),
        RunPhase::Idle | RunPhase::Planning | RunPhase::Executing | RunPhase::Synthesizing => {
            (PlanSource::Planner, create_list(tx, &draft))
        }
    };
    record(tx, &draft, text, &merged.changes);
    if source == PlanSource::Planner || !merged.changes.is_empty() {
        record_source(tx, source);
    }
    change::record_status_changes(tx, &merged);
    refine::end(tx);
    review::ask_if_wanted(tx);
    // If a person must review the plan first, or sent a message meanwhile, the item stays pending. If it still runs after
    // that, it begins with a model call of its own.
    let may_run = tx.state.is_reviewed() && !tx.state.is_refinement_due();
    if let (false, true, Some(item)) = (draft.calls.is_empty(), may_run, draft.items.first()) {
        let id = ItemId::from(item.id.as_str());
        return PlanReplyOutcome::FirstStep { item: id, calls: draft.calls };
    }
    PlanReplyOutcome::Continues
}

/// A refusal fails the run only if nothing was done in it yet and the planner has seen every message; otherwise it is
/// an answer to what was said so far.
fn refusal(state: &State, reason: String) -> PlanReplyOutcome {
    if state.is_mid_run() || state.is_refinement_due() {
        PlanReplyOutcome::Answers(reason)
    } else {
        PlanReplyOutcome::Fails { code: Code::TaskRefused, message: reason }
    }
}

fn parse_usable(tx: &Tx<'_>, reply: &ModelReply) -> Result<PlanDraft, String> {
    let mut draft = parse::plan(reply).map_err(|fault| fault.0)?;
    change::restore_ids(tx.state, &mut draft.items);
    let most = tx.world.limits.items_per_plan;
    if draft.items.len() > most {
        return Err(format!("The todoList has {} items; at most {most} are allowed.", draft.items.len()));
    }
    let with_new = forget::min_items_with(tx, &draft.items);
    if with_new > most {
        return Err(format!("With the new items the todoList has {with_new}; at most {most} are allowed."));
    }
    let steered = tx.state.phase() == RunPhase::Refining;
    if !steered {
        draft.items.retain(change::is_wanted);
    }
    let is_empty = draft.answer.is_none() && draft.refuse.is_none();
    if draft.items.is_empty() && is_empty && !steered {
        return Err("The todoList is empty and there is no answer; give one of them.".into());
    }
    Ok(draft)
}

fn repair(tx: &mut Tx<'_>, call: &ModelCall, reply: Value, fault: String, names: bool) -> PlanReplyOutcome {
    let round = model_call::repair_rounds(call) + 1;
    if round > MAX_REPAIRS {
        let message = format!("The model's plan could not be read: {}", text::cut(&fault, 500));
        if tx.state.is_mid_run() {
            refine::on_failed(tx, Code::PlanUnreadable, &message);
            return PlanReplyOutcome::Continues;
        }
        return PlanReplyOutcome::Fails { code: Code::PlanUnreadable, message };
    }
    let names = names || call.repair.as_ref().is_some_and(|before| before.names);
    let repair = Some(Repair { round, reply, fault, names });
    tx.active().model = Some(ModelCall { repair, ..call.again(call.iteration + 1) });
    PlanReplyOutcome::Continues
}

fn record_heading(tx: &mut Tx<'_>, draft: &PlanDraft) {
    change::set_intent(tx, draft.intent.as_deref(), None);
    if let Some(title) = draft.title.as_deref().filter(|title| !title.trim().is_empty()) {
        let mut words = title.split_whitespace();
        let mut title = words.by_ref().take(MAX_TITLE_WORDS).collect::<Vec<_>>().join(" ");
        if words.next().is_some() {
            title.push('…');
        }
        let title = text::cut(&title, 200);
        tx.state.head.title = title.clone();
        tx.title = Some(title.clone());
        tx.record(None, title.clone(), TitleBody { title });
    }
}

/// Creates the list of a thread that had none.
fn create_list(tx: &mut Tx<'_>, draft: &PlanDraft) -> PlanMerge {
    tx.state.head.plan_version += 1;
    let items: Vec<Item> =
        draft.items.iter().enumerate().map(|(at, item)| change::new_item(tx, at as i64, item)).collect();
    let ids: Vec<ItemId> = items.iter().map(|item| item.def.id.clone()).collect();
    tx.state.list.rebuild(|list| list.extend(items));
    let changes = ids.iter().map(|id| change::item_change(tx, ChangeType::Added, id)).collect();
    PlanMerge { changes, ..PlanMerge::default() }
}

fn record(tx: &mut Tx<'_>, draft: &PlanDraft, raw: Value, changes: &[TodoItemChange]) {
    change::set_text(tx, draft.plan.as_deref());
    let plan = match &tx.state.head.plan {
        Value::Null => Value::String(String::new()),
        plan => plan.clone(),
    };
    let body = PlanBody {
        plan,
        plan_version: tx.state.head.plan_version,
        raw_output: raw,
        changes: Some(changes.to_vec()),
        todo_list: None,
        step_outputs: None,
    };
    tx.record(None, "Plan", body);
}

/// Records the `PLAN_UPDATE` whose changes are in the `PLAN` before it.
fn record_source(tx: &mut Tx<'_>, source: PlanSource) {
    let plan_version = tx.state.head.plan_version;
    change::record_update(tx, None, PlanUpdateBody { plan_version, source, changes: None, order: None, plan: None });
}
