//! The final answer.

use super::SynthesisPrompt;
use crate::domain::prompt::PromptMessage;

pub fn synthesis(prompt: &SynthesisPrompt<'_>) -> Vec<PromptMessage> {
    vec![
        PromptMessage::System { content: "Phase: synthesis\n".into() },
        PromptMessage::User { content: prompt.query.to_owned() },
    ]
}
