//! A scripted reply, and its conversion into a stream.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde::Deserialize;
use serde_json::Value;

use super::call_description::{CallDescription, When};
use crate::domain::model::{Delta, FailureKind, ModelFailure, StopReason, Usage};
use crate::provider::DeltaStream;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Reply {
    pub(super) when: When,
    thinking: String,
    text: String,
    /// Sent as JSON text, after `text`.
    json: Option<Value>,
    calls: Vec<Call>,
    fail: Option<Fail>,
    /// After all output the stream stays open until the caller gives up.
    hang: bool,
    /// The delay before the first delta.
    delay_ms: u64,
    /// The delay between two deltas; the server's pace if absent.
    pace_ms: Option<u64>,
    usage: Option<Tokens>,
    stop: Option<StopReason>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Tokens {
    input: u64,
    output: u64,
    thinking: u64,
    cached: u64,
}

/// A native tool call.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    tool: String,
    /// A string is sent as it is, so that it can be invalid JSON.
    #[serde(default)]
    arguments: Value,
    #[serde(default)]
    id: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fail {
    kind: FailureKind,
    #[serde(default)]
    message: String,
    #[serde(default)]
    status: Option<u16>,
    #[serde(default)]
    retry_after_ms: Option<i64>,
    /// The number of deltas before the failure; without it the call fails before the first.
    #[serde(default)]
    after: Option<usize>,
}

type Piece = Result<Delta, ModelFailure>;

impl Reply {
    /// A reply of text only, for calls that no script matches.
    pub(super) fn of_text(text: String) -> Self {
        Self { text, ..Self::default() }
    }

    pub(super) fn of_json(json: Value) -> Self {
        Self { json: Some(json), ..Self::default() }
    }

    /// Why it is of no use.
    pub(super) fn mistake(&self) -> Option<&'static str> {
        if !self.says_something() {
            return Some("says nothing: give it text, json, calls, fail or hang");
        }
        (!self.when.counts_from_one())
            .then_some("names a number that no call has: iterations and attempts count from 1")
    }

    fn says_something(&self) -> bool {
        let says = !self.text.is_empty() || self.json.is_some() || !self.calls.is_empty();
        says || !self.thinking.is_empty() || self.fail.is_some() || self.hang
    }

    pub(super) fn stream(&self, call: &CallDescription<'_>, pace: Duration) -> Result<DeltaStream, ModelFailure> {
        let mut pieces = self.pieces(call);
        if let Some(fail) = &self.fail {
            let Some(after) = fail.after else { return Err(fail.failure()) };
            pieces.truncate(after);
            pieces.push(Err(fail.failure()));
        }
        if self.hang {
            pieces.retain(|piece| !matches!(piece, Ok(Delta::Stop(_))));
        }
        let delay = Duration::from_millis(self.delay_ms);
        let pace = self.pace_ms.map_or(pace, Duration::from_millis);
        let said = paced(pieces, delay, pace);
        Ok(if self.hang { said.chain(stream::pending()).boxed() } else { said })
    }

    fn pieces(&self, call: &CallDescription<'_>) -> Vec<Piece> {
        let mut text = call.fill(&self.text);
        if let Some(json) = &self.json {
            text.push_str(&call.fill_value(json).to_string());
        }
        let mut pieces: Vec<Piece> = Vec::new();
        pieces.extend(tokens(&call.fill(&self.thinking)).map(|token| Ok(Delta::Thinking(token))));
        pieces.extend(tokens(&text).map(|token| Ok(Delta::Text(token))));
        let said = pieces.len();
        for (index, scripted) in self.calls.iter().enumerate() {
            pieces.extend(scripted.pieces(index as u32, call).map(Ok));
        }
        let usage = self.usage.map_or_else(|| estimate(call, said + 8 * self.calls.len()), Tokens::usage);
        pieces.push(Ok(Delta::Usage(usage)));
        let stop = if self.calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
        pieces.push(Ok(Delta::Stop(self.stop.clone().unwrap_or(stop))));
        pieces
    }
}

impl Tokens {
    fn usage(self) -> Usage {
        Usage {
            input_tokens: self.input,
            output_tokens: self.output,
            thinking_tokens: self.thinking,
            cached_input_tokens: self.cached,
        }
    }
}

impl Call {
    /// The name first, then the arguments in two deltas, as vendors do.
    fn pieces(&self, index: u32, call: &CallDescription<'_>) -> impl Iterator<Item = Delta> + use<> {
        let arguments = match &self.arguments {
            Value::Null => "{}".to_owned(),
            Value::String(raw) => call.fill(raw),
            value => call.fill_value(value).to_string(),
        };
        let middle = (0..=arguments.len() / 2).rev().find(|at| arguments.is_char_boundary(*at)).unwrap_or(0);
        let (head, tail) = arguments.split_at(middle);
        let context = &call.request.context;
        let id = self.id.clone().unwrap_or_else(|| format!("demo_{}_{}", context.iteration, index + 1));
        let more = |arguments: &str| Delta::ToolCall { index, id: None, name: None, arguments: arguments.to_owned() };
        let first = Delta::ToolCall { index, id: Some(id), name: Some(self.tool.clone()), arguments: String::new() };
        [first, more(head), more(tail)].into_iter()
    }
}

impl Fail {
    fn failure(&self) -> ModelFailure {
        let message = if self.message.is_empty() { "the script says so" } else { &self.message };
        ModelFailure {
            http_status: self.status,
            retry_after_ms: self.retry_after_ms,
            ..ModelFailure::new(self.kind, message)
        }
    }
}

/// Words with the whitespace that follows them: about the size of a vendor's tokens.
fn tokens(text: &str) -> impl Iterator<Item = String> {
    text.split_inclusive(' ').map(str::to_owned)
}

/// A rough estimate, deterministic for the same call.
fn estimate(call: &CallDescription<'_>, output_tokens: usize) -> Usage {
    Usage { input_tokens: call.prompt_length() as u64 / 4, output_tokens: output_tokens as u64, ..Usage::default() }
}

fn paced(pieces: Vec<Piece>, delay: Duration, pace: Duration) -> DeltaStream {
    let pieces = stream::iter(pieces).enumerate();
    if delay.is_zero() && pace.is_zero() {
        return pieces.map(|(_, piece)| piece).boxed();
    }
    pieces
        .then(move |(at, piece)| async move {
            tokio::time::sleep(if at == 0 { delay } else { pace }).await;
            piece
        })
        .boxed()
}
