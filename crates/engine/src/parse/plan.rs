//! Parses plans and refinements.

use serde_json::Value;

use super::call;
use super::field::{self, Object};
use super::find::{FoundJson, FoundValues, find};
use super::item::{self, LIST};
use super::json::Tail;
use super::{CallDraft, ItemDraft, ParseFault, PlanDraft, PlanPatchDraft, TOO_LONG};
use crate::domain::model::{ModelReply, StopReason};
use crate::domain::plan::StepType;

const PLAN: [&str; 2] = ["plan", "strategy"];

/// Parses a plan. Calls without a list become one tool item. An empty list needs an answer. A list that the end of the
/// reply cut off is a fault, and so is an answer that was cut off: half of either is of no use.
pub fn plan(reply: &ModelReply) -> Result<PlanDraft, ParseFault> {
    let draft = parse_any(reply);
    match reply.stop {
        StopReason::MaxTokens => draft.map_err(|ParseFault(fault)| ParseFault(format!("{TOO_LONG} {fault}"))),
        StopReason::EndTurn
        | StopReason::ToolUse
        | StopReason::StopSequence
        | StopReason::Refusal
        | StopReason::Other(_) => draft,
    }
}

fn parse_any(reply: &ModelReply) -> Result<PlanDraft, ParseFault> {
    let text = &reply.text;
    let finds = find(text);
    let all = || finds.found.iter().rev().filter_map(|found| Some((found, plan_parts(&found.value)?)));
    // The last list counts, because models correct themselves; without one the last outcome does.
    let chosen = all().find(|(_, body)| body.list.is_some());
    let chosen = chosen.or_else(|| all().find(|(_, body)| body.has_outcome())).or_else(|| all().next());
    // If a model only forgets brackets, nothing is lost; after a cut it is not known what would have followed.
    if reply.is_cut() && chosen.as_ref().is_some_and(|(found, _)| found.tail != Tail::Whole) {
        return Err(ParseFault("The JSON object is not whole; write a shorter one.".to_owned()));
    }
    if let Some((found, body)) = &chosen
        && body.list.is_some()
    {
        return listed(found, body);
    }
    let calls = calls(&finds, reply);
    if !calls.is_empty() {
        return Ok(of_calls(&finds.prose(text), calls));
    }
    match chosen {
        Some((_, body)) if body.has_outcome() => Ok(body.draft(Vec::new())),
        Some(_) => Err(ParseFault("The JSON object has no todoList.".to_owned())),
        None if finds.found.is_empty() => Err(finds.fault(text)),
        None => Err(ParseFault("The JSON object has neither a todoList nor an answer.".to_owned())),
    }
}

fn listed(found: &FoundJson, body: &PlanParts<'_>) -> Result<PlanDraft, ParseFault> {
    let is_list_last = body.object.is_none_or(|object| field::is_last(object, &LIST) || field::is_last(object, &PLAN));
    if found.tail == Tail::Torn && is_list_last {
        return Err(ParseFault("The reply ended in the middle of the todoList; write a shorter plan.".to_owned()));
    }
    let items = item::items(body.list.unwrap_or_default());
    if items.is_empty() && !body.has_outcome() {
        return Err(ParseFault("The todoList has no items and there is no answer.".to_owned()));
    }
    Ok(body.draft(items))
}

/// `updatedPlan`, or the same as a bare list.
pub(super) fn patch(value: &Value) -> Option<PlanPatchDraft> {
    let body = plan_parts(value)?;
    Some(PlanPatchDraft {
        intent: body.word(&["intent"]),
        plan: body.plan(),
        items: item::items(body.list.unwrap_or_default()),
    })
}

/// The parts of a plan in a JSON value.
struct PlanParts<'a> {
    object: Option<&'a Object>,
    list: Option<&'a [Value]>,
}

fn plan_parts(value: &Value) -> Option<PlanParts<'_>> {
    match value {
        Value::Array(list) => is_items(list).then_some(PlanParts { object: None, list: Some(list) }),
        Value::Object(object) => of_object(object).or_else(|| {
            // A plan in an envelope: {"plan": {"todoList": […]}}.
            object.values().filter_map(Value::as_object).find_map(|inner| of_object(inner).filter(|b| b.list.is_some()))
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn of_object(object: &Object) -> Option<PlanParts<'_>> {
    let plan_list = || field::any(object, &PLAN).and_then(Value::as_array).filter(|list| is_items(list));
    let list = field::any(object, &LIST).and_then(Value::as_array).or_else(plan_list).map(Vec::as_slice);
    let known =
        list.is_some() || ["answer", "refuse", "intent", "plan", "title"].iter().any(|name| object.contains_key(*name));
    let is_envelope = list.is_none()
        && object.values().any(|inner| inner.as_object().is_some_and(|o| field::any(o, &LIST).is_some()));
    (known && !is_envelope).then_some(PlanParts { object: Some(object), list })
}

fn is_items(list: &[Value]) -> bool {
    let is_item = |value: &Value| {
        value
            .as_object()
            .is_some_and(|object| field::any(object, &["description", "task", "stepType", "step"]).is_some())
    };
    !list.is_empty() && list.iter().all(is_item)
}

impl PlanParts<'_> {
    fn word(&self, names: &[&str]) -> Option<String> {
        field::text(self.object?, names)
    }

    fn answer(&self) -> Option<String> {
        self.word(&["answer"])
    }

    fn refuse(&self) -> Option<String> {
        self.word(&["refuse"])
    }

    /// Whether it is enough without items.
    fn has_outcome(&self) -> bool {
        self.answer().is_some() || self.refuse().is_some()
    }

    /// The text of the plan; a list under that name is the todo list.
    fn plan(&self) -> Option<String> {
        let value = field::any(self.object?, &PLAN)?;
        let is_list = value.as_array().is_some_and(|list| is_items(list));
        (!is_list).then(|| field::as_text(value)).filter(|text| !text.trim().is_empty())
    }

    fn draft(&self, items: Vec<ItemDraft>) -> PlanDraft {
        PlanDraft {
            title: self.word(&["title"]),
            intent: self.word(&["intent"]),
            plan: self.plan(),
            answer: self.answer(),
            refuse: self.refuse(),
            items,
            calls: Vec::new(),
        }
    }
}

fn calls(finds: &FoundValues, reply: &ModelReply) -> Vec<CallDraft> {
    if reply.tool_calls.is_empty() { finds.found.iter().flat_map(call::written).collect() } else { call::native(reply) }
}

fn of_calls(prose: &str, calls: Vec<CallDraft>) -> PlanDraft {
    let mut tools: Vec<String> = Vec::new();
    for call in &calls {
        if !tools.contains(&call.name) {
            tools.push(call.name.clone());
        }
    }
    let description = if prose.is_empty() { format!("Use {}", tools.join(", ")) } else { prose.to_owned() };
    let item = ItemDraft {
        description: Some(description),
        step_type: Some(StepType::Tool),
        required_tools: Some(tools),
        ..ItemDraft::default()
    };
    PlanDraft { items: vec![item], calls, ..PlanDraft::default() }
}
