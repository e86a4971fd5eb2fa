//! Steps of an item. The prompt is about this item only.

use super::data::{Marker, marked};
use super::layers::{self, Stage, notes, system};
use super::template::{CONVERSE, ENFORCEMENT, REASONING_STEP, TOOL_STEP, fill, paragraphs};
use super::{History, StepPrompt, results, summary, turns};
use crate::domain::prompt::PromptMessage;

const LAST: &str = "This is your last reply for this item: answer with its result now.";

pub fn tool_step(prompt: &StepPrompt<'_>) -> Vec<PromptMessage> {
    step(prompt, TOOL_STEP, History::default(), task)
}

pub fn reasoning_step(prompt: &StepPrompt<'_>) -> Vec<PromptMessage> {
    step(prompt, REASONING_STEP, History::default(), task)
}

/// The only step of a run without a plan: the item is the user's query, in its conversation.
pub fn converse(prompt: &StepPrompt<'_>, history: History<'_>) -> Vec<PromptMessage> {
    step(prompt, CONVERSE, history, |prompt, _, _| prompt.item.description.clone())
}

type Task = fn(&StepPrompt<'_>, usize, &Marker) -> String;

fn step(prompt: &StepPrompt<'_>, instructions: &str, history: History<'_>, task: Task) -> Vec<PromptMessage> {
    let stage = Stage {
        phase: format!("execution {}", prompt.item.id),
        instructions,
        tools: layers::schemas(prompt.tools),
        persona: |prompts| prompts.execution.as_ref(),
    };
    let most = prompt.frame.settings.execution.tool_result_max_length as usize;
    marked(prompt.frame.seed, |marker| {
        let mut messages = vec![system(&prompt.frame, &stage, marker)];
        messages.extend(summary::history(&history, marker));
        messages.push(PromptMessage::User { content: task(prompt, most, marker) });
        messages.extend(turns::messages(prompt.turns, most, marker));
        let last = paragraphs([notes(prompt.notes).as_str(), if prompt.is_last { LAST } else { "" }]);
        if !last.is_empty() {
            messages.push(PromptMessage::User { content: last });
        }
        messages
    })
}

fn task(prompt: &StepPrompt<'_>, most: usize, marker: &Marker) -> String {
    let item = prompt.item;
    let task = format!("Task: {}", item.description);
    let outcome = item.expected_outcome.as_deref().map(|it| format!("Expected outcome: {it}")).unwrap_or_default();
    let tools = match item.required_tools.as_slice() {
        [] => String::new(),
        names => format!("Required tools: {}", names.join(", ")),
    };
    let earlier = results::earlier(prompt.results, most, marker);
    let heading = if earlier.is_empty() { "" } else { "Results of earlier items:" };
    paragraphs([task.as_str(), &outcome, &tools, heading, &earlier])
}

/// What the model is told (as a [`super::Turn::Told`]) when required tools were not called successfully.
pub fn enforcement(missing: &[String]) -> String {
    fill(ENFORCEMENT, &[("tools", &missing.join(", "))])
}
