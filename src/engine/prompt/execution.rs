//! Steps of an item.

use super::StepPrompt;
use crate::domain::prompt::PromptMessage;

pub fn tool_step(prompt: &StepPrompt<'_>) -> Vec<PromptMessage> {
    reasoning_step(prompt)
}

pub fn reasoning_step(prompt: &StepPrompt<'_>) -> Vec<PromptMessage> {
    vec![
        PromptMessage::System { content: format!("Phase: execution {}\n", prompt.item.id) },
        PromptMessage::User { content: prompt.item.description.clone() },
    ]
}

/// What the model is told (as a [`super::Turn::Told`]) when required tools were not called successfully.
pub fn enforcement(missing: &[String]) -> String {
    missing.join(", ")
}
