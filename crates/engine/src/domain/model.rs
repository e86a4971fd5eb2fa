//! Calls to language models: the request, the stream, the whole reply, and how a call fails.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Millis;
use super::prompt::PromptMessage;
use super::tool::ToolSpec;
use super::trace::CallTrace;

/// Which part of the flow a call serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Planning,
    Execution,
    Synthesis,
}

/// One call, ready for any provider.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    pub provider: String,
    pub model: String,
    pub phase: Phase,
    pub messages: Vec<PromptMessage>,
    /// Offered natively if the provider supports that; the prompt's text describes them for those that do not.
    pub tools: Vec<Arc<ToolSpec>>,
    /// A JSON schema for the whole reply, where the provider supports structured output.
    pub response_schema: Option<Arc<Value>>,
    /// `llmParams`: passed on to the provider, from a closed list (temperature, maxTokens, topP, stop, seed,
    /// frequencyPenalty, presencePenalty, reasoningEffort).
    pub params: Map<String, Value>,
    pub trace_id: String,
    /// The trace headers of this attempt.
    pub trace: CallTrace,
    /// `metadata` for scripted models and logs, never sent to a vendor.
    pub context: CallContext,
}

#[derive(Clone, Debug, Default)]
pub struct CallContext {
    pub thread_id: String,
    pub run_id: String,
    pub message_id: String,
    pub item_id: Option<String>,
    pub item_description: Option<String>,
    /// From 1, within the item, the plan or the synthesis.
    pub iteration: u32,
    /// From 1; a retry of the same call has the next one.
    pub attempt: u32,
    /// The user's query of the run.
    pub query: String,
    /// The id that an A2A client gave its message.
    pub a2a_message_id: Option<String>,
    /// Another model may be asked instead.
    pub has_other: bool,
    /// What the prompt does not show in full; `None`: it shows everything.
    pub fit: Option<ContextFit>,
}

/// How much of the conversation and of earlier results a prompt shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextFit {
    /// Messages of the earlier conversation.
    pub kept: usize,
    /// Older messages, covered by a summary.
    #[serde(default)]
    pub summarised: usize,
    /// Messages between those, which are not shown.
    #[serde(default, skip_serializing_if = "crate::domain::is_default")]
    pub left_out: usize,
    /// Results that are shortened.
    pub shortened: usize,
}

/// A piece of a streamed reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    Text(String),
    Thinking(String),
    /// All text so far was thinking: the prompt's template had opened a thinking block.
    WasThinking,
    /// A tool call's beginning or a piece of its arguments; pieces of several calls may interleave.
    ToolCall {
        index: u32,
        id: Option<String>,
        name: Option<String>,
        arguments: String,
    },
    /// Opaque blocks to keep and send back within a tool loop.
    Replay(Value),
    Usage(Usage),
    /// The provider said why it stopped. A stream that ends without this is incomplete.
    Stop(StopReason),
}

impl Delta {
    /// Its size within the reply, in bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::Text(text) | Self::Thinking(text) => text.len(),
            Self::ToolCall { name, arguments, .. } => name.as_ref().map_or(0, String::len) + arguments.len(),
            Self::Replay(blocks) => blocks.to_string().len(),
            Self::WasThinking | Self::Usage(_) | Self::Stop(_) => 0,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    EndTurn,
    ToolUse,
    MaxTokens,
    StopSequence,
    Refusal,
    #[serde(untagged)]
    Other(String),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Included in the output.
    pub thinking_tokens: u64,
    /// Included in the input.
    pub cached_input_tokens: u64,
}

impl Usage {
    pub fn add(&mut self, other: &Usage) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.thinking_tokens = self.thinking_tokens.saturating_add(other.thinking_tokens);
        self.cached_input_tokens = self.cached_input_tokens.saturating_add(other.cached_input_tokens);
    }
}

/// A whole reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelReply {
    pub text: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub thinking: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<RawToolCall>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Value>,
    pub usage: Usage,
    pub stop: StopReason,
    /// The provider that answered, which is not always the first of a fallback list.
    pub provider: String,
    pub model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_to_first_token_ms: Option<i64>,
    /// How long the call waited in the queue for the provider; absent if it did not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_ms: Option<i64>,
    pub total_ms: i64,
    /// What the prompt did not show in full, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fit: Option<ContextFit>,
    /// The digest of the prompt that it answers: [`prompt::digest`](super::prompt::digest).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_digest: Option<String>,
}

impl ModelReply {
    /// Whether it ended before the model was finished: its last part may be incomplete.
    pub fn is_cut(&self) -> bool {
        match self.stop {
            StopReason::MaxTokens | StopReason::Refusal => true,
            StopReason::EndTurn | StopReason::ToolUse | StopReason::StopSequence | StopReason::Other(_) => false,
        }
    }

    /// Whether the model refused, or was not allowed to answer: any text is no answer.
    pub fn is_refusal(&self) -> bool {
        self.stop == StopReason::Refusal && self.tool_calls.is_empty()
    }
}

/// A native tool call as the provider sent it; `arguments` is JSON text, possibly invalid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RawToolCall {
    pub id: Option<String>,
    pub name: String,
    pub arguments: String,
}

/// How a call failed, classified by what can be done about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelFailure {
    pub kind: FailureKind,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_status: Option<u16>,
    /// The model wrote a call that cannot be read: the provider works.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_models_fault: bool,
    /// This server could not make the request: nothing was sent, and no model failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_ours: bool,
    /// How long the provider asked to wait before another attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<Millis>,
    /// How long it waited in this server's queue, whether or not it was sent then: not the provider's fault.
    #[serde(default)]
    pub queued_ms: Millis,
    /// The text that was streamed before it failed; its tokens carry the attempt's stream id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub partial_text: String,
    /// What it used, as far as that is known: as the provider reported it, else an estimate of the prompt and of what
    /// arrived. `None`: the provider had not begun to answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

impl ModelFailure {
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            http_status: None,
            is_models_fault: false,
            is_ours: false,
            retry_after_ms: None,
            queued_ms: 0,
            partial_text: String::new(),
            usage: None,
        }
    }

    /// Whether the request may have reached the provider. A call that was interrupted before it was sent has no usage.
    pub fn was_sent(&self) -> bool {
        let is_unsent = self.is_ours || (self.kind == FailureKind::Interrupted && self.usage.is_none());
        self.kind.was_sent() && !is_unsent
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The provider is busy: try again.
    Retry,
    /// The provider cannot be reached: nothing was sent.
    Unreachable,
    /// The provider refuses the request: trying again is useless.
    Refused,
    /// The response does not follow the protocol.
    Broken,
    /// The stream ended early.
    Incomplete,
    /// The process died or the call was aborted while it was under way.
    Interrupted,
    /// The reply is larger than `models.reply_bytes`; it would be again.
    TooLarge,
    /// The prompt is longer than the model takes: a shorter one may pass.
    TooLong,
    /// The conversation is longer than the model reads, and is summed up first: nothing was sent.
    Overflow,
    /// This server has too many calls to the provider in flight: nothing was sent.
    #[serde(rename = "provider_saturated")]
    Saturated,
    /// The circuit breaker is open, because the provider failed too often in a row: nothing was sent.
    BreakerOpen,
}

impl FailureKind {
    /// Whether the request may have reached the provider.
    pub fn was_sent(self) -> bool {
        match self {
            FailureKind::Unreachable | FailureKind::Overflow | FailureKind::Saturated | FailureKind::BreakerOpen => {
                false
            }
            FailureKind::Retry
            | FailureKind::Refused
            | FailureKind::Broken
            | FailureKind::Incomplete
            | FailureKind::Interrupted
            | FailureKind::TooLarge
            | FailureKind::TooLong => true,
        }
    }
}
