//! Planning and refinement.

use serde_json::{Value, json};

use super::{PlanPrompt, RefinePrompt};
use crate::domain::prompt::PromptMessage;

pub fn plan(prompt: &PlanPrompt<'_>) -> Vec<PromptMessage> {
    vec![
        PromptMessage::System { content: "Phase: planning\n".into() },
        PromptMessage::User { content: prompt.query.to_owned() },
    ]
}

pub fn refine(prompt: &RefinePrompt<'_>) -> Vec<PromptMessage> {
    vec![
        PromptMessage::System { content: "Phase: refinement\n".into() },
        PromptMessage::User { content: prompt.query.to_owned() },
    ]
}

/// The JSON schema of a plan, for providers with structured output.
pub fn plan_schema() -> Value {
    json!({})
}
