//! Planning: the first reply of a run becomes a todo list, a direct answer, or a request to say it again.

use std::collections::BTreeSet;

use serde_json::Value;

use super::execute::Replied;
use super::record::{cut, to_value};
use super::refine::{Merged, is_wanted};
use super::state::{Definition, Item, ModelCall, Phase, Progress, Repair};
use super::transition::Transition;
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

impl Transition<'_> {
    pub fn plan_replied(&mut self, replied: Replied<'_>) {
        let text = replied.text.clone();
        let mut draft = match self.usable_plan(replied.reply) {
            Ok(draft) => draft,
            Err(fault) => return self.repair_plan(replied.call, text, fault, false),
        };
        self.name_items(&mut draft.items);
        if let Some(fault) = self.unknown_names(replied.call, &draft.items) {
            return self.repair_plan(replied.call, text, fault, true);
        }
        self.notes_were_shown();
        self.record_heading(&draft);
        if let (true, Some(answer)) = (draft.items.is_empty(), &draft.answer) {
            let answer = answer.clone();
            self.record_plan(&draft, text, &[]);
            return self.answer_directly(answer);
        }
        if let (true, Some(reason)) = (draft.items.is_empty(), &draft.refuse) {
            return self.refuse(cut(reason, REFUSAL_CHARS));
        }
        let (source, merged) = match self.state.phase() {
            Phase::Refining => (Source::Refinement, self.merge(&draft, replied.call.shown)),
            Phase::Idle | Phase::Planning | Phase::Executing | Phase::Synthesizing => {
                (Source::Planner, self.first_list(&draft))
            }
        };
        self.record_plan(&draft, text, &merged.changes);
        if source == Source::Planner || !merged.changes.is_empty() {
            self.record_plan_of(source);
        }
        self.record_moved(&merged);
        self.refined();
        self.keep_review();
        // What a person must see first begins with a step of its own.
        if let (false, true, Some(item)) = (draft.calls.is_empty(), self.is_reviewed(), draft.items.first()) {
            let id = ItemId::from(item.id.as_str());
            self.begin_with_calls(&id, replied, draft.calls);
        }
    }

    /// Only a run that has done nothing yet can be refused, and one whose every message the planner has seen; else it is
    /// an answer to what was said so far.
    fn refuse(&mut self, reason: String) {
        match self.is_mid_run() || self.is_refinement_due() {
            true => self.answer_directly(reason),
            false => self.fail_run(Code::TaskRefused, reason, model::Phase::Planning),
        }
    }

    fn usable_plan(&self, reply: &ModelReply) -> Result<PlanDraft, String> {
        let mut draft = parse::plan(reply).map_err(|fault| fault.0)?;
        let most = self.world.limits.items_per_plan;
        if draft.items.len() > most {
            return Err(format!("The todoList has {} items; at most {most} are allowed.", draft.items.len()));
        }
        let with_new = self.least_items_with(&draft.items);
        if with_new > most {
            return Err(format!("With the new items the todoList has {with_new}; at most {most} are allowed."));
        }
        let steered = self.state.phase() == Phase::Refining;
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
    pub fn name_items(&self, drafts: &mut [ItemDraft]) {
        let mut taken: BTreeSet<String> = drafts.iter().map(|draft| draft.id.clone()).collect();
        let mut last = 0;
        for (at, draft) in drafts.iter_mut().enumerate().filter(|(_, draft)| draft.id.is_empty()) {
            let is_free = |id: &String| {
                let known = ItemId::from(id.as_str());
                !taken.contains(id) && self.state.item(&known).is_none() && !self.state.removed.contains_key(&known)
            };
            let free = (last.max(at) + 1..).map(|n| (n, n.to_string())).find(|(_, id)| is_free(id));
            (last, draft.id) = free.expect("numbers do not run out");
            taken.insert(draft.id.clone());
        }
    }

    fn repair_plan(&mut self, call: &ModelCall, reply: Value, fault: String, names: bool) {
        let round = repairs(call) + 1;
        if round > REPAIRS {
            let message = format!("The model's plan could not be read: {}", cut(&fault, 500));
            if self.is_mid_run() {
                return self.refinement_failed(Code::PlanUnreadable, &message);
            }
            return self.fail_run(Code::PlanUnreadable, message, model::Phase::Planning);
        }
        let names = names || call.repair.as_ref().is_some_and(|before| before.names);
        let repair = Some(Repair { round, reply, fault, names });
        self.active().model = Some(ModelCall { repair, ..call.again(call.iteration + 1) });
    }

    fn record_heading(&mut self, draft: &PlanDraft) {
        self.set_intent(draft.intent.as_deref(), None);
        if let Some(title) = draft.title.as_deref().filter(|title| !title.trim().is_empty()) {
            let title = title.split_whitespace().take(TITLE_WORDS).collect::<Vec<_>>().join(" ");
            let title = cut(&title, 200);
            self.state.head.title = title.clone();
            self.title = Some(title.clone());
            self.record(ObservationType::Title, None, title.clone(), serde_json::json!({ "title": title }));
        }
    }

    pub fn set_intent(&mut self, intent: Option<&str>, item: Option<&ItemId>) {
        let Some(intent) = intent.map(str::trim).filter(|intent| !intent.is_empty()) else { return };
        self.state.head.intent = cut(intent, INTENT_CHARS);
        let body = serde_json::json!({ "intent": self.state.head.intent });
        self.record(ObservationType::Intent, item, "Intent", body);
    }

    /// `false`: there is nothing new to say.
    pub fn set_plan(&mut self, plan: Option<&str>) -> bool {
        let Some(plan) = plan.filter(|plan| !plan.trim().is_empty()) else { return false };
        let id = format!("plan-{}", self.mint.hex());
        self.state.head.plan = self.store(id, Value::String(plan.to_owned()));
        true
    }

    /// The list of a thread that had none.
    fn first_list(&mut self, draft: &PlanDraft) -> Merged {
        self.state.head.plan_version += 1;
        let items: Vec<Item> =
            draft.items.iter().enumerate().map(|(at, item)| self.new_item(at as i64, item)).collect();
        let ids: Vec<ItemId> = items.iter().map(|item| item.def.id.clone()).collect();
        self.state.list.rebuild(|list| list.extend(items));
        let changes = ids.iter().map(|id| self.change(ChangeType::Added, id)).collect();
        Merged { changes, ..Merged::default() }
    }

    pub fn new_item(&self, ord: i64, draft: &ItemDraft) -> Item {
        let def = Definition {
            id: draft.id.as_str().into(),
            description: draft.description.clone().unwrap_or_else(|| draft.id.clone()),
            dependencies: draft.dependencies.iter().flatten().map(|id| id.as_str().into()).collect(),
            step_type: draft.step_type.or_else(|| implied_step_type(draft)),
            required_tools: draft.required_tools.clone().unwrap_or_default(),
            expected_outcome: draft.expected_outcome.clone(),
            tool_validation_mode: draft.tool_validation_mode,
            created: self.stamp.now,
            since: self.state.head.plan_version,
            edited: None,
        };
        let run = self.state.run.as_ref().map(|run| run.run_id.clone());
        let track = Progress { updated: self.stamp.now, run, ..Progress::default() };
        Item { ord, def, track, calls: Vec::new(), turns: Vec::new() }
    }

    /// A change of one item as `PLAN` and `PLAN_UPDATE` record it; marks the item as to be written.
    pub fn change(&mut self, kind: ChangeType, id: &ItemId) -> TodoItemChange {
        self.definition_changed(id);
        let item = self.state.item(id).map(super::view::todo_item);
        TodoItemChange { kind, item_id: id.clone(), timestamp: self.stamp.now, item, previous_item: None }
    }

    fn record_plan(&mut self, draft: &PlanDraft, raw: Value, changes: &[TodoItemChange]) {
        self.set_plan(draft.plan.as_deref());
        let plan = match &self.state.head.plan {
            Value::Null => Value::String(String::new()),
            plan => plan.clone(),
        };
        let body = serde_json::json!({
            "plan": plan, "planVersion": self.state.head.plan_version, "rawOutput": raw,
            "changes": to_value(&changes),
        });
        self.record(ObservationType::Plan, None, "Plan", body);
    }

    /// The `PLAN_UPDATE` whose changes stand in the `PLAN` before it.
    fn record_plan_of(&mut self, source: Source) {
        let body = serde_json::json!({ "planVersion": self.state.head.plan_version, "source": source.as_str() });
        self.record(ObservationType::PlanUpdate, None, "Plan changed", body);
    }

    pub fn record_plan_update(&mut self, source: Source, item: Option<&ItemId>, changes: &[TodoItemChange]) {
        let body = serde_json::json!({
            "planVersion": self.state.head.plan_version, "source": source.as_str(), "changes": to_value(&changes),
        });
        self.record(ObservationType::PlanUpdate, item, "Plan changed", body);
    }
}

/// How often this reply was asked for again.
pub(super) fn repairs(call: &ModelCall) -> u32 {
    call.repair.as_ref().map_or(0, |repair| repair.round)
}

fn implied_step_type(draft: &ItemDraft) -> Option<StepType> {
    let has_tools = draft.required_tools.as_ref().is_some_and(|tools| !tools.is_empty());
    Some(if has_tools { StepType::Tool } else { StepType::Reasoning })
}
