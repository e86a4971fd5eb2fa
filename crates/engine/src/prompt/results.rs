//! The results of items, as later prompts show them.

use std::borrow::Cow;

use serde_json::Value;

use super::StepResult;
use super::data::{Marker, shortened};
use crate::domain::tool::ToolResult;

/// However many results share a budget, each gets at least this much, in characters.
const MIN_SHARE_CHARS: usize = 200;

/// How many results of items that a step does not depend on its prompt contains: as many as can have a share of the
/// budget.
pub(crate) fn most_others(budget: usize) -> usize {
    budget / MIN_SHARE_CHARS
}

/// For an item's step: the results that it depends on come first and whole, with the outputs of their tools; then the
/// others, which share the budget.
pub(super) fn earlier(results: &[StepResult], budget: usize, marker: &Marker) -> String {
    let (needed, others): (Vec<&StepResult>, Vec<&StepResult>) =
        results.iter().partition(|result| result.is_dependency);
    let share = share(budget, others.len());
    let most = most_of_tools(needed.iter().copied(), budget);
    let mut text = String::new();
    for result in needed {
        block(&mut text, result, usize::MAX, &tools(result, most), marker);
    }
    for result in others {
        block(&mut text, result, share, "", marker);
    }
    text
}

/// For the synthesis: every result whole, with the outputs of its tools.
pub(super) fn all(results: &[StepResult], budget: usize, marker: &Marker) -> String {
    let most = most_of_tools(results, budget);
    let mut text = String::new();
    for result in results {
        block(&mut text, result, usize::MAX, &tools(result, most), marker);
    }
    text
}

/// The most characters of one tool's output: each output within the budget, all of them within four times the budget.
pub(crate) fn most_of_tools<'a>(results: impl IntoIterator<Item = &'a StepResult>, budget: usize) -> usize {
    let outputs = results.into_iter().flat_map(|result| &result.tool_results);
    let sizes = outputs.map(|tool| tool_result(tool, usize::MAX).len()).collect();
    level(sizes, budget.saturating_mul(4)).min(budget).max(MIN_SHARE_CHARS)
}

/// The most that each of these texts may have so that all of them fit into the room: short ones stay whole, the longest
/// ones are cut to the same length.
pub(crate) fn level(mut sizes: Vec<usize>, room: usize) -> usize {
    sizes.sort_unstable();
    let (mut left, count) = (room, sizes.len());
    for (at, size) in sizes.into_iter().enumerate() {
        let share = left / (count - at);
        if size > share {
            return share;
        }
        left -= size;
    }
    usize::MAX
}

fn share(budget: usize, among: usize) -> usize {
    (budget / among.max(1)).max(MIN_SHARE_CHARS)
}

/// Appends a block as a paragraph of its own.
fn block(text: &mut String, result: &StepResult, most: usize, tools: &str, marker: &Marker) {
    if !text.is_empty() {
        text.push_str("\n\n");
    }
    marker.append(text, &format!("item {}", result.item_id), |text| words(text, result, most, tools));
}

fn words(text: &mut String, result: &StepResult, most: usize, tools: &str) {
    text.extend(["Task: ", &result.description]);
    text.extend(["\nStatus: ", result.status.word()]);
    if let Some(reason) = &result.reason {
        text.extend(["\nReason: ", reason]);
    }
    // An item that was completed without words has the output of its last tool as its result: that is shown once.
    let is_shown = |value: &&Value| result.tool_results.iter().any(|tool| tool.output.as_ref() == Some(value));
    if let Some(value) = result.result.as_ref().filter(|value| tools.is_empty() || !is_shown(value)) {
        text.extend(["\nResult: ", &shortened(&as_text(value), most, "")]);
    }
    text.push_str(tools);
    if !result.outdated.is_empty() {
        let items = result.outdated.join(", ");
        text.extend(["\nNote: it rests on an earlier result of ", &items, ", done again since."]);
    }
}

fn tools(result: &StepResult, most: usize) -> String {
    let results = result.tool_results.iter();
    results.map(|result| format!("\nTool {}: {}", result.tool_name, tool_result(result, most))).collect()
}

/// A call's result in words: its output, or its error.
pub(super) fn tool_result(result: &ToolResult, most: usize) -> String {
    let text = match (&result.error, &result.output) {
        (Some(error), _) => {
            let at = error.pointer.as_deref().map(|pointer| format!(" (at {pointer})")).unwrap_or_default();
            format!("{} {}: {}{at}", result.status.as_str(), error.code, error.message).into()
        }
        (None, Some(output)) => as_text(output),
        (None, None) => result.status.as_str().into(),
    };
    let edited = result.metadata.as_ref().and_then(|metadata| metadata.get("editedArguments"));
    let note = edited.map(|edited| format!("A person changed the arguments to {edited} before it ran.\n"));
    note.unwrap_or_default() + &shortened(&text, most, &format!("; the whole is kept as {}", result.call_id))
}

/// A text as it is, anything else as JSON.
pub(crate) fn as_text(value: &Value) -> Cow<'_, str> {
    value.as_str().map_or_else(|| value.to_string().into(), Cow::Borrowed)
}
