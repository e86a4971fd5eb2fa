//! The demo model: finds the scripted reply to a call, or replies that it has none.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use super::MODEL;
use super::call_description::{CallDescription, ScriptPhase};
use super::reply::Reply;
use super::script::Script;
use crate::domain::fault::{Code, Fault};
use crate::domain::model::{ModelFailure, ModelRequest};
use crate::provider::{ChatModel, DeltaStream, params};

pub struct Demo {
    script: Script,
    pace: Duration,
}

impl Demo {
    /// `pace` is the time between two deltas of a reply; zero = none.
    pub fn new(script: Script, pace: Duration) -> Self {
        Self { script, pace }
    }

    /// The prompts that it can answer.
    pub fn prompts(&self) -> &[String] {
        &self.script.prompts
    }

    fn unknown(&self, call: &CallDescription<'_>) -> Reply {
        let answer = self.apology();
        match call.phase {
            ScriptPhase::Planning | ScriptPhase::Refinement | ScriptPhase::Repair => Reply::of_json(json!({
                "title": "Demo model",
                "intent": "Something that the demo model does not know",
                "plan": "None: say what the demo model knows.",
                "answer": answer,
                "todoList": [],
            })),
            ScriptPhase::Execution | ScriptPhase::Synthesis => Reply::of_text(answer),
            ScriptPhase::Summary => Reply::of_text("The demo model cannot sum up what was said.".to_owned()),
        }
    }

    fn apology(&self) -> String {
        let prompts: String = self.script.prompts.iter().map(|prompt| format!("\n- {prompt}")).collect();
        format!(
            "This is the demo model: it does not think, it only knows these prompts:\n{prompts}\n\n\
             Set a provider's key (OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY), OLLAMA_HOST, or PES_MODEL, to talk to \
             a real model."
        )
    }
}

#[async_trait]
impl ChatModel for Demo {
    async fn call(&self, request: ModelRequest) -> Result<DeltaStream, ModelFailure> {
        let call = CallDescription::of(&request);
        match self.script.reply(&call) {
            Some(reply) => reply.stream(&call, self.pace),
            None => self.unknown(&call).stream(&call, self.pace),
        }
    }

    fn admit(&self, model: &str, params: &Map<String, Value>) -> Result<(), Fault> {
        params::check(params)?;
        match self.script.admission(model) {
            Some(outcome) => outcome,
            None if model == MODEL => Ok(()),
            None => {
                let detail = format!("The demo provider has one model, `{MODEL}`; `{model}` is not it.");
                Err(Fault::new(Code::Invalid, detail).at("/options/providerConfig/modelId", "unknown model"))
            }
        }
    }
}
