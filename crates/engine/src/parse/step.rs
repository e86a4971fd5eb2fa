//! Parses the reply of an item's step.

use serde_json::Value;

use super::call::{self, CALLS};
use super::field::{self, Object};
use super::find::{FoundJson, find};
use super::json::Tail;
use super::plan;
use super::text::keyword;
use super::{Decision, StepDraft};
use crate::domain::model::ModelReply;

const DECISION: [&str; 3] = ["nextStepDecision", "next_step_decision", "decision"];
const PATCH: [&str; 2] = ["updatedPlan", "updated_plan"];
const CONTENT: [&str; 4] = ["content", "response", "result", "answer"];
const THOUGHTS: [&str; 3] = ["thoughts", "thought", "reasoning"];

/// Parses one step; never fails: text without our JSON is the content. If there are native calls, written ones are
/// ignored, so that a model that writes both does not call twice.
pub fn step(reply: &ModelReply) -> StepDraft {
    let mut finds = find(&reply.text);
    finds.found.retain(is_step);
    let mut draft = StepDraft { calls: call::native(reply), ..StepDraft::default() };
    for found in &finds.found {
        if reply.tool_calls.is_empty() {
            draft.calls.extend(call::written(found));
        }
        if let Value::Object(object) = &found.value {
            draft.merge_object(object, found.tail);
        }
    }
    if draft.content.is_empty() {
        draft.content = finds.prose(&reply.text);
    }
    draft
}

impl StepDraft {
    /// Applies the members of an object; if several objects have a member, the last one counts.
    fn merge_object(&mut self, object: &Object, tail: Tail) {
        if let Some(content) = field::text(object, &CONTENT) {
            self.content = content;
        }
        self.thoughts = field::text(object, &THOUGHTS).or(self.thoughts.take());
        self.decision = field::text(object, &DECISION).and_then(|word| decision(&keyword(&word))).or(self.decision);
        let is_torn = tail == Tail::Torn && field::is_last(object, &PATCH);
        if let (false, Some(value)) = (is_torn, field::any(object, &PATCH)) {
            self.updated_plan = plan::patch(value).or(self.updated_plan.take());
        }
    }
}

/// Whether this JSON is a step; any other JSON is part of the content.
fn is_step(found: &FoundJson) -> bool {
    let Value::Object(object) = &found.value else { return !call::written(found).is_empty() };
    let has = |names: &[&str]| names.iter().any(|name| object.contains_key(*name));
    let is_said = |key: &String| CONTENT[..1].contains(&key.as_str()) || THOUGHTS.contains(&key.as_str());
    has(&CALLS[..2]) || has(&DECISION[..2]) || has(&PATCH) || is_only_said(object, is_said) || is_bare_call(found)
}

fn is_only_said(object: &Object, is_said: impl Fn(&String) -> bool) -> bool {
    object.get("content").is_some_and(Value::is_string) && object.keys().all(is_said)
}

fn is_bare_call(found: &FoundJson) -> bool {
    !call::written(found).is_empty()
}

fn decision(word: &str) -> Option<Decision> {
    match word {
        "continue" | "next" => Some(Decision::Continue),
        "wait" => Some(Decision::Wait),
        "complete_item" | "complete" | "completed" | "done" | "finish" => Some(Decision::CompleteItem),
        "update_plan" | "replan" => Some(Decision::UpdatePlan),
        _ => None,
    }
}
