//! The prompts of planning and refinement.

use serde_json::{Value, json};

use super::data::{Marker, with_markers};
use super::layers::{Stage, notes, outline, system};
use super::template::{PLAN, REFINE, paragraphs};
use super::{PlanPrompt, RefinePrompt, conversation};
use crate::domain::plan::TodoItem;
use crate::domain::prompt::PromptMessage;

pub fn plan(prompt: &PlanPrompt<'_>) -> Vec<PromptMessage> {
    let stage = Stage {
        phase: "planning".to_owned(),
        instructions: PLAN,
        tools: outline(prompt.tools),
        persona: |prompts| prompts.planning.as_ref(),
    };
    with_markers(prompt.frame.seed, |marker| {
        let mut messages = vec![system(&prompt.frame, &stage, marker)];
        messages.extend(conversation::messages(&prompt.history, marker));
        messages.push(PromptMessage::User { content: prompt.query.to_owned() });
        messages
    })
}

pub fn refine(prompt: &RefinePrompt<'_>) -> Vec<PromptMessage> {
    let stage = Stage {
        phase: "refinement".to_owned(),
        instructions: REFINE,
        tools: outline(prompt.tools),
        persona: |prompts| prompts.planning.as_ref(),
    };
    with_markers(prompt.frame.seed, |marker| {
        let mut messages = vec![system(&prompt.frame, &stage, marker)];
        messages.extend(conversation::messages(&prompt.history, marker));
        messages.push(PromptMessage::User { content: refine_request(prompt, marker) });
        messages
    })
}

fn refine_request(prompt: &RefinePrompt<'_>, marker: &Marker) -> String {
    let items: Vec<String> = prompt.items.iter().map(|item| item_view(item).to_string()).collect();
    let so_far = paragraphs([
        format!("Intent: {}", prompt.intent).as_str(),
        format!("Plan: {}", prompt.plan).as_str(),
        format!("Todo list, one item per line:\n{}", items.join("\n")).as_str(),
    ]);
    let block = marker.block("plan so far", &so_far);
    paragraphs([prompt.query, &block, &notes(prompt.notes)])
}

/// The members of an item that a planner needs.
fn item_view(item: &TodoItem) -> Value {
    let mut shown = json!({ "id": item.id, "description": item.description, "status": item.status });
    if let Some(step_type) = item.step_type {
        shown["stepType"] = json!(step_type);
    }
    if !item.required_tools.is_empty() {
        shown["requiredTools"] = json!(item.required_tools);
    }
    if let Some(outcome) = &item.expected_outcome {
        shown["expectedOutcome"] = json!(outcome);
    }
    if !item.dependencies.is_empty() {
        shown["dependencies"] = json!(item.dependencies);
    }
    if let Some(reason) = &item.reason {
        shown["reason"] = json!(reason);
    }
    shown
}
