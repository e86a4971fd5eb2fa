//! Converts chunks of a generated content into deltas. Pure.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::WIRE;
use crate::domain::model::{Delta, FailureKind, ModelFailure, StopReason, Usage};
use crate::provider::frame::SmallList;
use crate::provider::http::{failure, in_stream};
use crate::provider::replay;
use crate::provider::think::Splitter;
use crate::provider::wire;

/// Maximum number of tool calls in one reply; far above what any run accepts.
const MAX_CALLS: u32 = 256;

/// The state of one reply.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    model: String,
    splitter: Splitter,
    calls: u32,
    /// Signatures by the index of their call.
    signatures: Map<String, Value>,
    usage: Option<Usage>,
    /// Why it stopped; `Err`: it broke off.
    stop: Option<Result<StopReason, ModelFailure>>,
}

/// A chunk; one is parsed for every few tokens. Rare members are boxed, because the struct is moved at each level of
/// deserialisation.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk {
    #[serde(default)]
    candidates: Option<SmallList<Candidate>>,
    #[serde(default)]
    prompt_feedback: Option<Feedback>,
    #[serde(default)]
    usage_metadata: Option<Counts>,
    #[serde(default)]
    error: Option<Box<Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    content: Option<Content>,
    #[serde(default)]
    finish_reason: Option<String>,
    #[serde(default)]
    finish_message: Option<String>,
}

#[derive(Default, Deserialize)]
struct Content {
    #[serde(default)]
    parts: Option<SmallList<Part>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    thought: Option<bool>,
    #[serde(default)]
    thought_signature: Option<String>,
    #[serde(default)]
    function_call: Option<Box<Call>>,
}

#[derive(Deserialize)]
struct Call {
    #[serde(default)]
    id: Option<String>,
    name: String,
    #[serde(default)]
    args: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    #[serde(default)]
    block_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Counts {
    #[serde(default)]
    prompt_token_count: Option<u64>,
    #[serde(default)]
    tool_use_prompt_token_count: Option<u64>,
    #[serde(default)]
    candidates_token_count: Option<u64>,
    #[serde(default)]
    thoughts_token_count: Option<u64>,
    #[serde(default)]
    cached_content_token_count: Option<u64>,
}

impl Wire {
    pub(crate) fn new(model: &str) -> Self {
        Self { model: model.to_owned(), ..Self::default() }
    }

    fn candidate(&mut self, candidate: Candidate, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        for part in candidate.content.unwrap_or_default().parts.unwrap_or_default() {
            self.part(part, deltas)?;
        }
        if let Some(reason) = candidate.finish_reason.filter(|reason| !reason.is_empty()) {
            self.stop = Some(self.stop(reason, candidate.finish_message));
        }
        Ok(())
    }

    fn part(&mut self, part: Part, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        if let Some(text) = part.text.filter(|text| !text.is_empty()) {
            match part.thought {
                Some(true) => deltas.push(Delta::Thinking(text)),
                Some(false) | None => self.splitter.push_deltas(text, deltas),
            }
        }
        let Some(call) = part.function_call else { return Ok(()) };
        if self.calls == MAX_CALLS {
            return Err(failure(FailureKind::Broken, format!("the reply has more than {MAX_CALLS} tool calls")));
        }
        if let Some(signature) = part.thought_signature {
            self.signatures.insert(self.calls.to_string(), signature.into());
        }
        let arguments = Value::Object(call.args.unwrap_or_default()).to_string();
        let id = call.id.filter(|id| !id.is_empty());
        deltas.push(Delta::ToolCall { index: self.calls, id, name: Some(call.name), arguments });
        self.calls += 1;
        Ok(())
    }

    fn stop(&self, reason: String, message: Option<String>) -> Result<StopReason, ModelFailure> {
        Ok(match reason.as_str() {
            "STOP" if self.calls > 0 => StopReason::ToolUse,
            "STOP" => StopReason::EndTurn,
            "MAX_TOKENS" => StopReason::MaxTokens,
            "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "IMAGE_SAFETY"
            | "MODEL_ARMOR" => StopReason::Refusal,
            // The intended call is lost, so only a new attempt can help.
            "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "MALFORMED_RESPONSE" => {
                let failure = broke_off(FailureKind::Broken, &reason, message);
                return Err(ModelFailure { is_models_fault: true, ..failure });
            }
            "OTHER" => return Err(broke_off(FailureKind::Incomplete, &reason, message)),
            _ => StopReason::Other(reason),
        })
    }
}

fn broke_off(kind: FailureKind, reason: &str, message: Option<String>) -> ModelFailure {
    failure(kind, format!("the reply broke off: {reason} {}", message.unwrap_or_default()))
}

impl wire::Wire for Wire {
    fn event(&mut self, data: &str, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        let chunk: Chunk = serde_json::from_str(data)
            .map_err(|error| failure(FailureKind::Broken, format!("a chunk is not of the protocol: {error}")))?;
        if let Some(error) = chunk.error {
            return Err(in_stream(&json!({ "error": error })));
        }
        if let Some(counts) = chunk.usage_metadata {
            self.usage = Some(counts.read());
        }
        for candidate in chunk.candidates.unwrap_or_default() {
            if candidate.index.unwrap_or(0) == 0 {
                self.candidate(candidate, deltas)?;
            }
        }
        match chunk.prompt_feedback.and_then(|feedback| feedback.block_reason) {
            Some(reason) => Err(failure(FailureKind::Refused, format!("the provider blocked the prompt: {reason}"))),
            None => Ok(()),
        }
    }

    /// No chunk is marked as the last: the end of the body ends the reply.
    fn is_finished(&self) -> bool {
        false
    }

    fn finish(&mut self, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        self.splitter.finish(deltas);
        let signatures = std::mem::take(&mut self.signatures);
        if !signatures.is_empty() {
            deltas.push(Delta::Replay(replay::sealed(WIRE, &self.model, signatures.into())));
        }
        deltas.extend(self.usage.take().map(Delta::Usage));
        let missing = || failure(FailureKind::Incomplete, "the reply ended without saying why it stopped");
        deltas.push(Delta::Stop(self.stop.take().ok_or_else(missing)??));
        Ok(())
    }
}

impl Counts {
    fn read(&self) -> Usage {
        let thinking = self.thoughts_token_count.unwrap_or(0);
        Usage {
            input_tokens: self.prompt_token_count.unwrap_or(0) + self.tool_use_prompt_token_count.unwrap_or(0),
            output_tokens: self.candidates_token_count.unwrap_or(0) + thinking,
            thinking_tokens: thinking,
            cached_input_tokens: self.cached_content_token_count.unwrap_or(0),
        }
    }
}
