//! Converts the events of a streamed message into deltas. Pure.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::WIRE;
use crate::domain::model::{Delta, FailureKind, ModelFailure, StopReason, Usage};
use crate::provider::http::{failure, in_stream};
use crate::provider::replay;
use crate::provider::think::Splitter;
use crate::provider::wire;

/// Maximum number of blocks in one reply; far above what any run accepts.
const MAX_BLOCKS: usize = 1024;

/// The state of one reply.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    model: String,
    /// The tool whose arguments are the reply's text.
    form: Option<&'static str>,
    splitter: Splitter,
    blocks: Vec<ContentBlock>,
    calls: u32,
    /// Thinking blocks, to be sent back.
    thinking_blocks: Vec<Value>,
    usage: Tokens,
    stop: Option<StopReason>,
    is_finished: bool,
}

/// A content block, by the vendor's index.
#[derive(Debug)]
struct ContentBlock {
    index: u64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Text,
    /// Its index in the stored thinking blocks.
    Thinking(usize),
    Call(u32),
    Form,
    /// Ignored: results of the vendor's own tools.
    Other,
}

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Cow<'a, str>,
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    message: Option<Message>,
    #[serde(default)]
    content_block: Option<Map<String, Value>>,
    #[serde(borrow, default)]
    delta: Option<BlockDelta<'a>>,
    #[serde(default)]
    usage: Option<Tokens>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct BlockDelta<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Cow<'a, str>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    thinking: Option<String>,
    #[serde(default)]
    signature: Option<String>,
    #[serde(default)]
    partial_json: Option<String>,
    #[serde(default)]
    stop_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct Message {
    #[serde(default)]
    content: Vec<Map<String, Value>>,
    #[serde(default)]
    usage: Option<Tokens>,
    #[serde(default)]
    stop_reason: Option<String>,
}

/// The counts so far; a later event repeats them or adds more.
#[derive(Clone, Debug, Default, Deserialize)]
struct Tokens {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
}

impl Wire {
    pub(crate) fn new(model: &str, form: Option<&'static str>) -> Self {
        Self { model: model.to_owned(), form, ..Self::default() }
    }

    /// A whole message, from a server that does not stream.
    fn whole(&mut self, data: &str, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        let message: Message = serde_json::from_str(data).map_err(foreign)?;
        for (index, block) in message.content.into_iter().enumerate() {
            self.begin(index as u64, block, deltas)?;
        }
        self.count(message.usage);
        self.stop = message.stop_reason.map(stop);
        self.is_finished = true;
        Ok(())
    }

    fn begin(&mut self, index: u64, block: Map<String, Value>, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        if self.blocks.len() == MAX_BLOCKS {
            return Err(failure(FailureKind::Broken, format!("the reply has more than {MAX_BLOCKS} blocks")));
        }
        let text = |name: &str| block.get(name).and_then(Value::as_str).map(str::to_owned);
        let kind = match block.get("type").and_then(Value::as_str) {
            Some("text") => {
                self.splitter.push_deltas(text("text").unwrap_or_default(), deltas);
                Kind::Text
            }
            Some("thinking") => {
                let thought = text("thinking").filter(|thought| !thought.is_empty());
                deltas.extend(thought.map(Delta::Thinking));
                self.thinking_blocks.push(Value::Object(block));
                Kind::Thinking(self.thinking_blocks.len() - 1)
            }
            Some("redacted_thinking") => {
                self.thinking_blocks.push(Value::Object(block));
                Kind::Other
            }
            Some("tool_use") if self.form.is_some() && text("name").as_deref() == self.form => {
                deltas.extend(given(&block).map(Delta::Text));
                Kind::Form
            }
            Some("tool_use") => {
                let arguments = given(&block).unwrap_or_default();
                deltas.push(Delta::ToolCall { index: self.calls, id: text("id"), name: text("name"), arguments });
                self.calls += 1;
                Kind::Call(self.calls - 1)
            }
            Some(_) | None => Kind::Other,
        };
        self.blocks.push(ContentBlock { index, kind });
        Ok(())
    }

    fn piece(
        &mut self,
        index: Option<u64>,
        piece: BlockDelta<'_>,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), ModelFailure> {
        let open = match index {
            Some(index) => self.blocks.iter().rev().find(|open| open.index == index),
            None => self.blocks.last(),
        };
        let kind = open.map(|open| open.kind);
        match (&*piece.kind, kind) {
            ("text_delta", _) => self.splitter.push_deltas(piece.text.unwrap_or_default(), deltas),
            ("thinking_delta", kind) => {
                let thought = piece.thinking.unwrap_or_default();
                if let Some(Kind::Thinking(index)) = kind {
                    append(&mut self.thinking_blocks[index], "thinking", &thought);
                }
                deltas.extend((!thought.is_empty()).then_some(Delta::Thinking(thought)));
            }
            ("signature_delta", Some(Kind::Thinking(index))) => {
                append(&mut self.thinking_blocks[index], "signature", &piece.signature.unwrap_or_default());
            }
            ("input_json_delta", Some(Kind::Call(index))) => {
                let arguments = piece.partial_json.unwrap_or_default();
                deltas.push(Delta::ToolCall { index, id: None, name: None, arguments });
            }
            ("input_json_delta", Some(Kind::Form)) => {
                let text = piece.partial_json.filter(|text| !text.is_empty());
                deltas.extend(text.map(Delta::Text));
            }
            ("input_json_delta", None) => {
                let message = "the arguments of a tool call came that never began";
                return Err(failure(FailureKind::Broken, message));
            }
            _ => {}
        }
        Ok(())
    }

    fn count(&mut self, tokens: Option<Tokens>) {
        let (Some(new), known) = (tokens, &mut self.usage) else { return };
        known.input_tokens = new.input_tokens.or(known.input_tokens);
        known.output_tokens = new.output_tokens.or(known.output_tokens);
        known.cache_creation_input_tokens = new.cache_creation_input_tokens.or(known.cache_creation_input_tokens);
        known.cache_read_input_tokens = new.cache_read_input_tokens.or(known.cache_read_input_tokens);
    }
}

impl wire::Wire for Wire {
    fn event(&mut self, data: &str, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        let frame: Frame<'_> = serde_json::from_str(data).map_err(foreign)?;
        match &*frame.kind {
            "content_block_delta" => {
                let piece = frame.delta.ok_or_else(|| failure(FailureKind::Broken, "a piece without content"))?;
                self.piece(frame.index, piece, deltas)?;
            }
            "content_block_start" => {
                let index = frame.index.unwrap_or(self.blocks.len() as u64);
                self.begin(index, frame.content_block.unwrap_or_default(), deltas)?;
            }
            // Counts the prompt's tokens, so that they are known even if the reply breaks off.
            "message_start" => {
                self.count(frame.message.and_then(|message| message.usage));
                deltas.extend(self.usage.read().map(Delta::Usage));
            }
            "message_delta" => {
                self.count(frame.usage);
                let reason = frame.delta.and_then(|delta| delta.stop_reason);
                self.stop = reason.map(stop).or(self.stop.take());
            }
            "message_stop" => self.is_finished = true,
            "message" => self.whole(data, deltas)?,
            "error" => return Err(in_stream(&json!({ "error": frame.error }))),
            _ if frame.error.is_some() => return Err(in_stream(&json!({ "error": frame.error }))),
            // Pings and unknown events.
            _ => {}
        }
        Ok(())
    }

    fn is_finished(&self) -> bool {
        self.is_finished
    }

    fn finish(&mut self, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        self.splitter.finish(deltas);
        let thinking_blocks = std::mem::take(&mut self.thinking_blocks);
        if self.calls > 0 && !thinking_blocks.is_empty() {
            deltas.push(Delta::Replay(replay::sealed(WIRE, &self.model, thinking_blocks.into())));
        }
        deltas.extend(self.usage.read().map(Delta::Usage));
        match self.stop.take() {
            // The only tool was the form of its text.
            Some(StopReason::ToolUse) if self.calls == 0 => deltas.push(Delta::Stop(StopReason::EndTurn)),
            Some(stop) => deltas.push(Delta::Stop(stop)),
            None => return Err(failure(FailureKind::Incomplete, "the reply ended without saying why it stopped")),
        }
        Ok(())
    }
}

impl Tokens {
    /// `None`: there were no counts. Cached tokens are input tokens, too.
    fn read(&self) -> Option<Usage> {
        let cached = self.cache_read_input_tokens.unwrap_or(0);
        let input = self.input_tokens.unwrap_or(0) + self.cache_creation_input_tokens.unwrap_or(0) + cached;
        let usage = Usage {
            input_tokens: input,
            output_tokens: self.output_tokens.unwrap_or(0),
            thinking_tokens: 0,
            cached_input_tokens: cached,
        };
        (self.input_tokens.is_some() || self.output_tokens.is_some()).then_some(usage)
    }
}

/// Arguments that arrived whole with the call.
fn given(block: &Map<String, Value>) -> Option<String> {
    let input = block.get("input")?.as_object()?;
    (!input.is_empty()).then(|| Value::Object(input.clone()).to_string())
}

fn append(block: &mut Value, key: &str, more: &str) {
    match &mut block[key] {
        Value::String(text) => text.push_str(more),
        other => *other = more.into(),
    }
}

fn foreign(error: serde_json::Error) -> ModelFailure {
    failure(FailureKind::Broken, format!("an event is not of the protocol: {error}"))
}

fn stop(reason: String) -> StopReason {
    match reason.as_str() {
        "end_turn" => StopReason::EndTurn,
        "tool_use" => StopReason::ToolUse,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "stop_sequence" => StopReason::StopSequence,
        "refusal" => StopReason::Refusal,
        _ => StopReason::Other(reason),
    }
}
