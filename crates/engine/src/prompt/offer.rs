//! Selects the tools that a step's prompt shows with their schemas: as few as the step can need.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::domain::plan::StepType;
use crate::domain::tool::ToolSpec;
use crate::pes::state::{Item, State};

/// How many tools are shown to a step that names none.
const MAX_TOOLS: usize = 24;
/// Shorter words are ignored, in characters.
const MIN_WORD_CHARS: usize = 3;

/// A tool step is shown the tools that it must use. If it names none, it is shown all tools; of very many, those that
/// match the words of its task and those that it has called. A reasoning step is shown none. Calls of other enabled
/// tools run all the same.
pub(crate) fn tools_of_step(state: &State, item: &Item, offered: Vec<Arc<ToolSpec>>) -> Vec<Arc<ToolSpec>> {
    let required = &item.def.required_tools;
    match (item.def.step_type, required.is_empty()) {
        (Some(StepType::Tool) | None, true) => {
            let called: BTreeSet<&str> = state.calls_of(item).map(|call| call.tool_name.as_str()).collect();
            let outcome = item.def.expected_outcome.as_deref().unwrap_or_default();
            closest(&format!("{} {outcome}", item.def.description), &called, offered)
        }
        (Some(StepType::Reasoning), true) => Vec::new(),
        (Some(StepType::Tool | StepType::Reasoning) | None, false) => {
            offered.into_iter().filter(|tool| required.contains(&tool.name)).collect()
        }
    }
}

/// At most [`MAX_TOOLS`] tools, in the order in which they were offered.
fn closest(task: &str, called: &BTreeSet<&str>, offered: Vec<Arc<ToolSpec>>) -> Vec<Arc<ToolSpec>> {
    if offered.len() <= MAX_TOOLS {
        return offered;
    }
    let wanted = words(task);
    let near = |tool: &ToolSpec| {
        let shared = |text: &str| words(text).intersection(&wanted).count();
        (called.contains(tool.name.as_str()), 2 * shared(&tool.name) + shared(&tool.description))
    };
    let mut ranked: Vec<(usize, Arc<ToolSpec>)> = offered.into_iter().enumerate().collect();
    ranked.sort_by_cached_key(|(position, tool)| (Reverse(near(tool)), *position));
    ranked.truncate(MAX_TOOLS);
    ranked.sort_by_key(|(position, _)| *position);
    ranked.into_iter().map(|(_, tool)| tool).collect()
}

fn words(text: &str) -> BTreeSet<String> {
    let parts = text.split(|c: char| !c.is_alphanumeric()).filter(|part| part.chars().count() >= MIN_WORD_CHARS);
    parts.map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests;
