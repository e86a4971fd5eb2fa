//! The prompt of a synthesis: the final answer of a run.

use std::borrow::Cow;

use super::data::{Marker, with_markers};
use super::layers::{Stage, system};
use super::template::{SYNTHESIS, SYNTHESIS_AS_JSON, fill, paragraphs};
use super::{SynthesisPrompt, conversation, results};
use crate::domain::prompt::PromptMessage;

pub fn synthesis(prompt: &SynthesisPrompt<'_>) -> Vec<PromptMessage> {
    let instructions = match &prompt.frame.settings.answer_schema {
        Some(schema) => Cow::Owned(fill(SYNTHESIS_AS_JSON, &[("schema", &schema.to_string())])),
        None => Cow::Borrowed(SYNTHESIS),
    };
    let stage = Stage {
        phase: "synthesis".to_owned(),
        instructions: &instructions,
        tools: String::new(),
        persona: |prompts| prompts.synthesis.as_ref(),
    };
    with_markers(prompt.frame.seed, |marker| {
        let mut messages = vec![system(&prompt.frame, &stage, marker)];
        messages.extend(conversation::messages(&prompt.history, marker));
        messages.push(PromptMessage::User { content: question(prompt, marker) });
        messages
    })
}

/// Above the results of the items.
pub(super) const RESULTS_HEADING: &str = "Results:";

fn question(prompt: &SynthesisPrompt<'_>, marker: &Marker) -> String {
    let most = prompt.frame.settings.execution.tool_result_max_length as usize;
    let plan = marker.block("plan", &format!("Intent: {}\nPlan: {}", prompt.intent, prompt.plan));
    paragraphs([prompt.query, &plan, RESULTS_HEADING, &results::all(prompt.results, most, marker)])
}
