//! A script: replies and admission faults as data.

use serde::Deserialize;

use super::call_description::CallDescription;
use super::reply::Reply;
use crate::config::layers::with_line;
use crate::domain::fault::{Code, Fault};

/// The data of the demo model. The first reply whose conditions hold is used.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Script {
    /// Prompts to offer to users.
    pub(super) prompts: Vec<String>,
    reused_message_ids: Vec<String>,
    #[serde(rename = "reply")]
    replies: Vec<Reply>,
    #[serde(rename = "admission")]
    admissions: Vec<Admission>,
}

/// What happens when a run chooses this model.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Admission {
    model: String,
    /// The fault's code; without one the model is admitted.
    #[serde(default)]
    code: Option<Code>,
    #[serde(default)]
    detail: String,
    #[serde(default)]
    retry_after_ms: Option<i64>,
}

impl Script {
    /// Parses a script in TOML; the error has the position.
    pub fn parse(text: &str) -> Result<Self, String> {
        let script: Script = toml::from_str(text).map_err(|error| format!("line {}", with_line(text, &error)))?;
        let wrong = script.replies.iter().enumerate().find_map(|(at, reply)| Some((at + 1, reply.mistake()?)));
        wrong.map_or(Ok(script), |(number, why)| Err(format!("reply {number} {why}")))
    }

    /// The built-in script.
    pub fn builtin() -> Self {
        Self::parse(include_str!("prompts.toml")).expect("the script that is compiled in is tested")
    }

    /// This script, with the other one as a fallback.
    pub fn or(mut self, other: Script) -> Self {
        self.prompts.extend(other.prompts);
        self.reused_message_ids.extend(other.reused_message_ids);
        self.replies.extend(other.replies);
        self.admissions.extend(other.admissions);
        self
    }

    /// Prefixes of A2A message ids that the script's clients use for more than one message.
    pub fn reused_message_ids(&self) -> &[String] {
        &self.reused_message_ids
    }

    pub(super) fn reply(&self, call: &CallDescription<'_>) -> Option<&Reply> {
        self.replies.iter().find(|reply| reply.when.holds(call))
    }

    /// `None`: the script does not mention that model.
    pub(super) fn admission(&self, model: &str) -> Option<Result<(), Fault>> {
        let admission = self.admissions.iter().find(|admission| admission.model == model)?;
        Some(match admission.code {
            None => Ok(()),
            Some(code) => {
                let mut fault = Fault::new(code, admission.detail.clone());
                fault.retry_after_ms = admission.retry_after_ms;
                Err(fault)
            }
        })
    }
}
