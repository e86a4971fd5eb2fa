//! Converts chunks of a streamed completion into deltas. Pure; tolerates members that vendors add or omit.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::WIRE;
use super::calls::{CallFragment, Calls};
use super::compatible::Reasoning;
use super::replayed_reasoning::ReplayedReasoning;
use super::surrogates;
use crate::domain::model::{Delta, FailureKind, ModelFailure, StopReason, Usage};
use crate::provider::frame::{LenientStr, SmallList};
use crate::provider::http::{failure, in_stream};
use crate::provider::replay;
use crate::provider::think::Splitter;
use crate::provider::wire;

/// The state of one reply.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    splitter: Splitter,
    calls: Calls,
    usage: Option<Usage>,
    /// Why it stopped; `Err`: the vendor says that it broke off.
    stop: Option<Result<StopReason, ModelFailure>>,
    /// A delta has arrived: a whole message beside or after it repeats the same content.
    is_begun: bool,
    refused: bool,
    is_finished: bool,
    model: String,
    reasoning: ReplayedReasoning,
    /// The message of the last event that is no chunk of the protocol: it may say why the reply breaks off.
    last_message: Option<String>,
    /// The first half of a surrogate pair, with which the last chunk ended.
    half: Option<u16>,
}

/// A chunk; one is parsed for every token. Rare members are boxed, because the struct is moved at each level of
/// deserialisation.
#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(default)]
    choices: Option<SmallList<Choice>>,
    #[serde(default)]
    usage: Option<Box<Value>>,
    #[serde(default)]
    error: Option<Box<Value>>,
    #[serde(borrow, default)]
    object: LenientStr<'a>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    delta: Option<Part>,
    /// The whole message, from a server that does not stream although requested; or the message so far.
    #[serde(default)]
    message: Option<Box<Part>>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    content: Value,
    #[serde(default)]
    reasoning_content: Option<String>,
    #[serde(default)]
    reasoning: Option<String>,
    #[serde(default)]
    reasoning_details: Option<Vec<Map<String, Value>>>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<CallPart>>,
}

#[derive(Deserialize)]
struct CallPart {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<Function>,
}

#[derive(Default, Deserialize)]
struct Function {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<Value>,
}

impl Wire {
    pub(crate) fn new(reasoning: Reasoning, model: &str) -> Self {
        Self { model: model.to_owned(), reasoning: ReplayedReasoning::new(reasoning), ..Self::default() }
    }
}

impl wire::Wire for Wire {
    fn event(&mut self, data: &str, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        if data.trim() == "[DONE]" {
            self.is_finished = true;
            return Ok(());
        }
        let half = self.half.take();
        let mended: String;
        let chunk: Chunk<'_> = match serde_json::from_str(data) {
            Ok(chunk) => chunk,
            Err(error) => {
                let found = surrogates::mend(data, half).ok_or_else(|| broken(&error))?;
                self.half = found.half;
                mended = found.chunk;
                serde_json::from_str(&mended).map_err(|error| broken(&error))?
            }
        };
        if let Some(error) = &chunk.error {
            return Err(in_stream(error));
        }
        if chunk.object.0 == "error" {
            return Err(in_stream(&serde_json::from_str(data).unwrap_or_default()));
        }
        if let Some(usage) = chunk.usage.as_deref().and_then(usage) {
            self.usage = Some(usage);
        }
        if chunk.choices.is_none() {
            self.last_message = message(data);
        }
        for choice in chunk.choices.unwrap_or_default() {
            if choice.index.unwrap_or(0) == 0 {
                self.choice(choice, deltas)?;
            }
        }
        Ok(())
    }

    /// `[DONE]` was received.
    fn is_finished(&self) -> bool {
        self.is_finished
    }

    fn finish(&mut self, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        self.splitter.finish(deltas);
        if !self.calls.is_empty() {
            let kept = std::mem::take(&mut self.reasoning).blocks();
            deltas.extend(kept.map(|blocks| Delta::Replay(replay::sealed(WIRE, &self.model, blocks))));
        }
        deltas.extend(self.usage.take().map(Delta::Usage));
        match self.stop.take() {
            Some(Err(failure)) => return Err(failure),
            Some(Ok(_)) if self.refused => deltas.push(Delta::Stop(StopReason::Refusal)),
            Some(Ok(stop)) => deltas.push(Delta::Stop(stop)),
            None => {
                let said = self.last_message.take().map(|message| format!("; it said: {message}")).unwrap_or_default();
                let why = format!("the reply ended without saying why it stopped{said}");
                return Err(failure(FailureKind::Incomplete, why));
            }
        }
        Ok(())
    }
}

impl Wire {
    fn choice(&mut self, choice: Choice, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        let is_begun = std::mem::replace(&mut self.is_begun, true);
        let whole = choice.message.filter(|_| !is_begun).map(|part| *part);
        if let Some(part) = choice.delta.or(whole) {
            self.reasoning.take(part.reasoning_content.as_deref(), part.reasoning_details);
            let thinking = [part.reasoning_content, part.reasoning].into_iter().flatten().find(|text| !text.is_empty());
            deltas.extend(thinking.map(Delta::Thinking));
            self.content(part.content, deltas);
            if let Some(refusal) = part.refusal.filter(|text| !text.is_empty()) {
                self.refused = true;
                self.splitter.push_deltas(refusal, deltas);
            }
            for call in part.tool_calls.unwrap_or_default() {
                self.call(call, deltas)?;
            }
        }
        if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
            self.stop = Some(stop(reason));
        }
        Ok(())
    }

    /// A text, or a list of parts, some of which are thinking.
    fn content(&mut self, content: Value, deltas: &mut Vec<Delta>) {
        match content {
            Value::String(text) => self.splitter.push_deltas(text, deltas),
            Value::Array(parts) => {
                for part in &parts {
                    match (&part["thinking"], &part["text"]) {
                        (Value::String(text), _) => deltas.push(Delta::Thinking(text.clone())),
                        (Value::Array(inner), _) => deltas.extend(
                            inner
                                .iter()
                                .filter_map(|part| part["text"].as_str())
                                .map(|t| Delta::Thinking(t.to_owned())),
                        ),
                        (_, Value::String(text)) => self.splitter.push_deltas(text.clone(), deltas),
                        _ => {}
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {}
        }
    }

    fn call(&mut self, part: CallPart, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        let id = part.id.filter(|id| !id.is_empty());
        let function = part.function.unwrap_or_default();
        let name = function.name.filter(|name| !name.is_empty());
        let arguments = match function.arguments {
            Some(Value::String(piece)) => piece,
            // Some servers send a whole object instead of text.
            Some(object @ Value::Object(_)) => object.to_string(),
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) | None => String::new(),
        };
        let piece = CallFragment { index: part.index, id, name, arguments };
        if let Some(index) = self.calls.take(&piece)? {
            let CallFragment { index: _, id, name, arguments } = piece;
            deltas.push(Delta::ToolCall { index, id, name, arguments });
        }
        Ok(())
    }
}

/// The usage figures, if these are any. What a vendor sends as a fraction is rounded, and what is no count is left out,
/// because the reply before them is whole.
fn usage(figures: &Value) -> Option<Usage> {
    let count = |pointer: &str| rounded(figures.pointer(pointer)?);
    let (input, written) = (count("/prompt_tokens").unwrap_or(0), count("/completion_tokens").unwrap_or(0));
    let thought = count("/completion_tokens_details/reasoning_tokens").unwrap_or(0);
    // Some vendors do not include thinking in the output count; the total shows whether that is so.
    let sum = input.checked_add(written).and_then(|sum| sum.checked_add(thought));
    let is_beside = sum.is_some() && count("/total_tokens") == sum;
    // The second name is DeepSeek's.
    let cached = count("/prompt_tokens_details/cached_tokens").or(count("/prompt_cache_hit_tokens"));
    figures.is_object().then(|| Usage {
        input_tokens: input,
        output_tokens: if is_beside { written + thought } else { written },
        thinking_tokens: thought,
        cached_input_tokens: cached.unwrap_or(0),
    })
}

fn rounded(figure: &Value) -> Option<u64> {
    let of_fraction = || figure.as_f64().filter(|figure| *figure >= 0.0).map(|figure| figure.round() as u64);
    figure.as_u64().or_else(of_fraction)
}

fn message(event: &str) -> Option<String> {
    let mut event: Value = serde_json::from_str(event).ok()?;
    match event.get_mut("message")?.take() {
        Value::String(message) if !message.is_empty() => Some(message),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn broken(error: &serde_json::Error) -> ModelFailure {
    failure(FailureKind::Broken, format!("a chunk is not of the protocol: {error}"))
}

fn stop(reason: String) -> Result<StopReason, ModelFailure> {
    Ok(match reason.as_str() {
        "stop" | "eos" | "end_turn" => StopReason::EndTurn,
        "tool_calls" | "function_call" | "tool_use" => StopReason::ToolUse,
        "length" | "max_tokens" | "model_length" => StopReason::MaxTokens,
        "content_filter" | "refusal" => StopReason::Refusal,
        "error" | "abort" | "insufficient_system_resource" => {
            return Err(failure(FailureKind::Incomplete, format!("the reply broke off: {reason}")));
        }
        _ => StopReason::Other(reason),
    })
}
