//! Parses todo items. One that cannot be read is left out or read in part; it never affects the others.

use std::collections::HashSet;

use serde_json::Value;

use super::ItemDraft;
use super::field::{self, Object};
use super::text::{head, keyword};
use crate::domain::plan::{ItemStatus, StepType, ToolValidationMode};

pub(super) const LIST: [&str; 6] = ["todoList", "todo_list", "todolist", "todos", "items", "steps"];
const DEPENDENCIES: [&str; 4] = ["dependencies", "dependsOn", "depends_on", "deps"];
const TOOLS: [&str; 4] = ["requiredTools", "required_tools", "tools", "tool"];
const MAX_ID_BYTES: usize = 128;

/// The items of a list, with unique ids: a repeated id gets a suffix, a missing one is empty.
pub(super) fn items(list: &[Value]) -> Vec<ItemDraft> {
    let mut items: Vec<ItemDraft> = list.iter().filter_map(item).collect();
    let mut taken: HashSet<String> = HashSet::new();
    for item in items.iter_mut().filter(|item| !item.id.is_empty()) {
        item.id = free(&taken, &item.id);
        taken.insert(item.id.clone());
    }
    items
}

fn free(taken: &HashSet<String>, id: &str) -> String {
    if !taken.contains(id) {
        return id.to_owned();
    }
    // Counting up from the number of ids taken keeps a list of equal ids linear.
    (taken.len() + 1..).map(|n| format!("{id}-{n}")).find(|id| !taken.contains(id)).expect("numbers do not run out")
}

fn item(value: &Value) -> Option<ItemDraft> {
    match value {
        Value::Object(object) => Some(of_object(object)),
        Value::String(text) if !text.trim().is_empty() => {
            Some(ItemDraft { description: Some(text.trim().to_owned()), ..ItemDraft::default() })
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    }
}

fn of_object(object: &Object) -> ItemDraft {
    let word = |names: &[&str]| field::text(object, names).map(|text| keyword(&text));
    ItemDraft {
        id: field::text(object, &["id", "itemId", "stepId", "step_id"]).map(|id| clean_id(&id)).unwrap_or_default(),
        description: field::text(object, &["description", "task", "title", "name", "step", "content"]),
        step_type: word(&["stepType", "step_type", "type"]).and_then(|word| step_type(&word)),
        required_tools: field::words(object, &TOOLS, &["name", "toolName"]),
        expected_outcome: field::text(object, &["expectedOutcome", "expected_outcome"]),
        dependencies: field::words(object, &DEPENDENCIES, &["id"])
            .map(|ids| ids.iter().map(|id| clean_id(id)).filter(|id| !id.is_empty()).collect()),
        status: word(&["status", "state"]).and_then(|word| status(&word)),
        tool_validation_mode: word(&["toolValidationMode", "tool_validation_mode"]).and_then(|word| mode(&word)),
        redo: word(&["redo"]).is_some_and(|word| matches!(word.as_str(), "true" | "yes")),
    }
}

/// An id as models write it: one line, no white space, limited in length.
pub(crate) fn clean_id(id: &str) -> String {
    let line: String = id.trim().chars().map(|c| if c.is_control() || c.is_whitespace() { '_' } else { c }).collect();
    head(&line, MAX_ID_BYTES).to_owned()
}

fn step_type(word: &str) -> Option<StepType> {
    match word {
        "tool" | "tools" | "tool_call" | "tool_step" | "action" => Some(StepType::Tool),
        "reasoning" | "reason" | "think" | "thinking" | "analysis" | "llm" => Some(StepType::Reasoning),
        _ => None,
    }
}

fn status(word: &str) -> Option<ItemStatus> {
    match word {
        "pending" | "todo" | "open" | "not_started" | "new" => Some(ItemStatus::Pending),
        "in_progress" | "inprogress" | "running" | "active" | "started" => Some(ItemStatus::InProgress),
        "completed" | "complete" | "done" | "finished" | "success" => Some(ItemStatus::Completed),
        "failed" | "error" => Some(ItemStatus::Failed),
        "cancelled" | "canceled" | "skipped" | "removed" | "obsolete" => Some(ItemStatus::Cancelled),
        "waiting" | "blocked" => Some(ItemStatus::Waiting),
        _ => None,
    }
}

fn mode(word: &str) -> Option<ToolValidationMode> {
    match word {
        "strict" => Some(ToolValidationMode::Strict),
        "advisory" => Some(ToolValidationMode::Advisory),
        _ => None,
    }
}
