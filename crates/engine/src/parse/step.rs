//! Parses the reply of an item's step.

use serde_json::Value;

use super::call;
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
/// Names of members that only a step has. The other names of the same members occur in ordinary JSON, too.
const NAMES_OF_STEP: [&str; 6] =
    ["toolCalls", "tool_calls", "nextStepDecision", "next_step_decision", "updatedPlan", "updated_plan"];

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
    let has_name_of_step = |object: &Object| NAMES_OF_STEP.iter().any(|name| object.contains_key(*name));
    let is_only_content = |object: &Object| {
        let is_text = object.get("content").is_some_and(Value::is_string);
        is_text && object.keys().all(|key| key == "content" || THOUGHTS.contains(&key.as_str()))
    };
    let object = found.value.as_object();
    object.is_some_and(|object| has_name_of_step(object) || is_only_content(object)) || !call::written(found).is_empty()
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
