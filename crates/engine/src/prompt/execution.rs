//! The prompt of an item's step. It is about this item only.

use super::data::{Marker, with_markers};
use super::layers::{self, Stage, notes, system};
use super::template::{CONVERSE, ENFORCEMENT, REASONING_STEP, TOOL_STEP, fill, paragraphs};
use super::{History, StepPrompt, conversation, results, turns};
use crate::domain::prompt::PromptMessage;

const LAST_REPLY_NOTE: &str = "This is your last reply for this item: answer with its result now.";
/// Follows a reply that only wants to go on: providers refuse a prompt that ends with the model's own words.
const GO_ON: &str = "Go on: call a tool, or answer with the result.";

/// A step with tools, or one without.
pub fn step(prompt: &StepPrompt<'_>) -> Vec<PromptMessage> {
    render(prompt, instructions(prompt), History::default(), task)
}

/// The only step of a run without a plan: the item is the user's query, shown with its conversation.
pub fn converse(prompt: &StepPrompt<'_>, history: History<'_>) -> Vec<PromptMessage> {
    render(prompt, CONVERSE, history, |prompt, _, _| prompt.item.description.clone())
}

/// The beginning of a step's prompt: the system prompt, and the task without the results of other items.
pub fn opening(prompt: &StepPrompt<'_>, converses: bool) -> (String, String) {
    let (instructions, task) = if converses {
        (CONVERSE, prompt.item.description.clone())
    } else {
        (instructions(prompt), assignment(prompt))
    };
    let messages =
        with_markers(prompt.frame.seed, |marker| vec![system(&prompt.frame, &stage(prompt, instructions), marker)]);
    let system = messages.into_iter().find_map(|message| match message {
        PromptMessage::System { content } => Some(content),
        PromptMessage::User { .. } | PromptMessage::Assistant { .. } | PromptMessage::Tool { .. } => None,
    });
    (system.unwrap_or_default(), task)
}

fn instructions(prompt: &StepPrompt<'_>) -> &'static str {
    if prompt.tools.is_empty() { REASONING_STEP } else { TOOL_STEP }
}

type Task = fn(&StepPrompt<'_>, usize, &Marker) -> String;

fn stage<'a>(prompt: &StepPrompt<'_>, instructions: &'a str) -> Stage<'a> {
    Stage {
        phase: format!("execution {}", prompt.item.id),
        instructions,
        tools: layers::schemas(prompt.tools),
        persona: |prompts| prompts.execution.as_ref(),
    }
}

fn render(prompt: &StepPrompt<'_>, instructions: &str, history: History<'_>, task: Task) -> Vec<PromptMessage> {
    let stage = stage(prompt, instructions);
    let most = prompt.frame.settings.execution.tool_result_max_length as usize;
    with_markers(prompt.frame.seed, |marker| {
        let mut messages = vec![system(&prompt.frame, &stage, marker)];
        messages.extend(conversation::messages(&history, marker));
        messages.push(PromptMessage::User { content: task(prompt, most, marker) });
        messages.extend(turns::messages(prompt.turns, most.min(prompt.most_of_own), marker));
        let last = paragraphs([notes(prompt.notes).as_str(), if prompt.is_last { LAST_REPLY_NOTE } else { "" }]);
        if !last.is_empty() {
            messages.push(PromptMessage::User { content: last });
        } else if matches!(messages.last(), Some(PromptMessage::Assistant { .. })) {
            messages.push(PromptMessage::User { content: GO_ON.to_owned() });
        }
        messages
    })
}

/// Above the results of other items.
pub(super) const RESULTS_HEADING: &str = "Results of earlier items:";

fn task(prompt: &StepPrompt<'_>, most: usize, marker: &Marker) -> String {
    let earlier = results::earlier(prompt.results, most, marker);
    let heading = if earlier.is_empty() { "" } else { RESULTS_HEADING };
    let left_out = match prompt.left_out {
        0 => String::new(),
        count => format!("[results left out, as this item does not depend on them: {count}]"),
    };
    paragraphs([assignment(prompt).as_str(), heading, &left_out, &earlier])
}

fn assignment(prompt: &StepPrompt<'_>) -> String {
    let item = prompt.item;
    let task = format!("Task: {}", item.description);
    let outcome = item.expected_outcome.as_deref().map(|it| format!("Expected outcome: {it}")).unwrap_or_default();
    let tools = match item.required_tools.as_slice() {
        [] => String::new(),
        names => format!("Required tools: {}", names.join(", ")),
    };
    paragraphs([task.as_str(), &outcome, &tools])
}

/// The message to the model (a [`super::Turn::Engine`]) when required tools were not called successfully.
pub fn enforcement(missing: &[String]) -> String {
    fill(ENFORCEMENT, &[("tools", &missing.join(", "))])
}

/// Whether a message to the model is an [`enforcement`].
pub fn is_enforcement(message: &str) -> bool {
    ENFORCEMENT.split_once("{{").is_some_and(|(beginning, _)| message.starts_with(beginning))
}
