//! Splits a prompt into its parts, for people who want to see what a model saw: its instructions, the tools it was
//! offered, the earlier conversation, the query or task.

use serde::Serialize;

use super::conversation::SUMMARY_HEADING;
use super::data::BLOCK_BEGINS;
use super::layers::TOOLS_HEADING;
use super::{execution, repair, synthesis};
use crate::domain::model::{ModelRequest, Phase};
use crate::domain::prompt::PromptMessage;
use crate::domain::settings::RunSettings;
use crate::domain::tokens;

/// What a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum PartKind {
    /// The server's instructions for the phase.
    System,
    /// What the persona says of the phase.
    Persona,
    /// The composed system prompt of server, thread and call.
    Thread,
    /// The tools that it was told of.
    Tools,
    /// The summary of the oldest messages.
    Summary,
    /// Messages of the conversation before.
    Conversation,
    /// What the user asks in this run.
    Query,
    /// The plan so far, or the list that is refined.
    Plan,
    /// The results of other items.
    Results,
    /// The task of the item.
    Item,
    /// The turns of the item's own loop so far.
    Loop,
    /// The reply that could not be used, and why.
    Repair,
}

/// A part of a prompt, in its order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PromptPart {
    /// What it is, so that it can be named and counted.
    pub kind: PartKind,
    /// Whose it is: who spoke, or the tool whose result it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// An estimate.
    pub tokens: u64,
    /// As the model gets it.
    pub text: String,
}

/// The parts of a prompt that was rendered with these settings.
pub fn parts(request: &ModelRequest, settings: &RunSettings) -> Vec<PromptPart> {
    let messages = request.messages.as_slice();
    let (system, rest) = match messages.split_first() {
        Some((PromptMessage::System { content }, rest)) => (content.as_str(), rest),
        _ => ("", messages),
    };
    let (rest, repair) = rest.split_at(rest.len() - repair_length(system, rest));
    let question = question_at(request, rest);
    let mut parts = of_system(system, request.phase, settings);
    for (at, message) in rest.iter().enumerate() {
        if at == question {
            parts.extend(of_question(request.phase, text(message)));
        } else if at > question {
            parts.push(message_part(PartKind::Loop, message));
        } else if text(message).starts_with(SUMMARY_HEADING) && at == 0 {
            parts.push(message_part(PartKind::Summary, message));
        } else {
            parts.push(message_part(PartKind::Conversation, message));
        }
    }
    parts.extend(repair.iter().map(|message| message_part(PartKind::Repair, message)));
    parts
}

/// How many messages at the end belong to a repair.
fn repair_length(system: &str, rest: &[PromptMessage]) -> usize {
    if !system.starts_with(repair::FIRST_LINE) {
        return 0;
    }
    match rest {
        [.., PromptMessage::Assistant { .. }, PromptMessage::User { .. }] => 2,
        _ => 1.min(rest.len()),
    }
}

/// The position of the task or the query: before an item's loop, after the conversation.
fn question_at(request: &ModelRequest, rest: &[PromptMessage]) -> usize {
    let last_of_user =
        || rest.iter().rposition(|message| matches!(message, PromptMessage::User { .. })).unwrap_or_default();
    match request.phase {
        Phase::Planning | Phase::Synthesis => last_of_user(),
        Phase::Execution => {
            let own = request.context.item_description.as_deref().unwrap_or_default();
            let is_task = |message: &PromptMessage| {
                matches!(message, PromptMessage::User { content }
                    if content == own || content.strip_prefix("Task: ").is_some_and(|task| task.starts_with(own)))
            };
            rest.iter().rposition(is_task).unwrap_or_else(last_of_user)
        }
    }
}

/// The system prompt, split where its layers begin.
fn of_system(content: &str, phase: Phase, settings: &RunSettings) -> Vec<PromptPart> {
    let personas = &settings.persona.prompts;
    let persona = match phase {
        Phase::Planning => &personas.planning,
        Phase::Execution => &personas.execution,
        Phase::Synthesis => &personas.synthesis,
    };
    let layers = [
        (PartKind::Tools, tools(content)),
        (PartKind::Persona, persona.as_deref().unwrap_or_default().trim()),
        (PartKind::Thread, settings.system_prompt.trim()),
    ];
    let mut parts = Vec::new();
    let mut rest = content;
    for (kind, layer) in layers.into_iter().filter(|(_, layer)| !layer.is_empty()) {
        if let Some((before, after)) = rest.split_once(layer) {
            parts.extend(part(PartKind::System, before));
            parts.extend(part(kind, layer));
            rest = after;
        }
    }
    parts.extend(part(PartKind::System, rest));
    parts
}

/// The paragraph about tools, which has no empty line; empty if there is none.
fn tools(content: &str) -> &str {
    let Some(at) = content.find(&format!("\n\n{TOOLS_HEADING}\n- ")) else { return "" };
    content[at..].trim_start().split("\n\n").next().unwrap_or_default()
}

/// A query or a task, split where the plan and the results begin.
fn of_question(phase: Phase, content: &str) -> Vec<PromptPart> {
    let (kind, heading) = match phase {
        Phase::Planning | Phase::Synthesis => (PartKind::Query, synthesis::RESULTS_HEADING),
        Phase::Execution => (PartKind::Item, execution::RESULTS_HEADING),
    };
    let (asked, results) = split_before(content, &format!("{heading}\n\n"));
    let (asked, plan) = split_before(asked, &format!("{BLOCK_BEGINS}plan"));
    let parts = [(kind, asked), (PartKind::Plan, plan), (PartKind::Results, results)];
    parts.into_iter().filter_map(|(kind, text)| part(kind, text)).collect()
}

/// The text before the paragraph that begins so, and the rest.
fn split_before<'a>(text: &'a str, paragraph: &str) -> (&'a str, &'a str) {
    let at = text.find(&format!("\n\n{paragraph}"));
    text.split_at(at.unwrap_or(text.len()))
}

/// A part that is a whole message.
fn message_part(kind: PartKind, message: &PromptMessage) -> PromptPart {
    let (of, text) = match message {
        PromptMessage::System { content } => ("system", content.clone()),
        PromptMessage::User { content } => ("user", content.clone()),
        PromptMessage::Assistant { content, tool_calls, .. } => {
            let calls = tool_calls.iter().map(|call| format!("{}({})", call.name, call.arguments));
            let said = Some(content.clone()).filter(|said| !said.is_empty());
            ("assistant", said.into_iter().chain(calls).collect::<Vec<_>>().join("\n"))
        }
        PromptMessage::Tool { name, content, .. } => (name.as_str(), content.clone()),
    };
    PromptPart { kind, of: Some(of.to_owned()), tokens: tokens::of_text(&text), text }
}

fn part(kind: PartKind, text: &str) -> Option<PromptPart> {
    let text = text.trim().to_owned();
    (!text.is_empty()).then(|| PromptPart { kind, of: None, tokens: tokens::of_text(&text), text })
}

fn text(message: &PromptMessage) -> &str {
    match message {
        PromptMessage::System { content }
        | PromptMessage::User { content }
        | PromptMessage::Assistant { content, .. }
        | PromptMessage::Tool { content, .. } => content,
    }
}
