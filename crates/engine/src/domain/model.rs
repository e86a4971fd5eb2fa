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
    /// A plan is made, refined or repaired, or a conversation summed up.
    Planning,
    /// A step of a todo item is taken.
    Execution,
    /// The answer is written.
    Synthesis,
}

/// One call, ready for any provider.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// As the server's configuration names it.
    pub provider: String,
    /// As the provider names it.
    pub model: String,
    /// The part of the flow that the call serves.
    pub phase: Phase,
    /// The whole prompt, the system prompt first.
    pub messages: Vec<PromptMessage>,
    /// Offered natively if the provider supports that; the prompt's text describes them for those that do not.
    pub tools: Vec<Arc<ToolSpec>>,
    /// A JSON schema for the whole reply, where the provider supports structured output.
    pub response_schema: Option<Arc<Value>>,
    /// `llmParams`: passed on to the provider, from a closed list (temperature, maxTokens, topP, stop, seed,
    /// frequencyPenalty, presencePenalty, reasoningEffort).
    pub params: Map<String, Value>,
    /// A W3C trace id: that of the run.
    pub trace_id: String,
    /// The trace headers of this attempt.
    pub trace: CallTrace,
    /// `metadata` for scripted models and logs, never sent to a vendor.
    pub context: CallContext,
}

/// Where a call belongs.
#[derive(Clone, Debug, Default)]
pub struct CallContext {
    /// The thread of the run.
    pub thread_id: String,
    /// The run that the call is made for.
    pub run_id: String,
    /// The user's message of the run.
    pub message_id: String,
    /// The todo item whose step it is.
    pub item_id: Option<String>,
    /// The task of that item.
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
    /// The next piece of the text.
    Text(String),
    /// The next piece of what the model thinks before its answer.
    Thinking(String),
    /// All text so far was thinking: the prompt's template had opened a thinking block.
    WasThinking,
    /// A tool call's beginning or a piece of its arguments; pieces of several calls may interleave.
    ToolCall {
        /// Which call of the reply the piece belongs to, from 0.
        index: u32,
        /// The provider's own id; sent once, or never.
        id: Option<String>,
        /// The tool's name; sent once.
        name: Option<String>,
        /// The next piece of the arguments, as JSON text.
        arguments: String,
    },
    /// Opaque blocks to keep and send back within a tool loop.
    Replay(Value),
    /// What the call has used so far: a later one replaces it.
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

/// Why a model stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It had said all.
    EndTurn,
    /// It wants results of tools.
    ToolUse,
    /// The reply has the greatest length that it may have.
    MaxTokens,
    /// It wrote one of the given stop sequences.
    StopSequence,
    /// It, or the provider's filter, would not answer.
    Refusal,
    /// Another word of the provider.
    #[serde(untagged)]
    Other(String),
}

/// The tokens of one or more model calls, as the providers count them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Those of the prompt, cached ones included.
    pub input_tokens: u64,
    /// Those of the reply, thinking included.
    pub output_tokens: u64,
    /// Included in the output.
    pub thinking_tokens: u64,
    /// Included in the input.
    pub cached_input_tokens: u64,
}

impl Usage {
    /// Adds up, without overflow.
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
    /// All text, without thinking.
    pub text: String,
    /// What the model thought before its answer; empty: nothing that the provider shows.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub thinking: String,
    /// In the order in which the model wrote them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<RawToolCall>,
    /// Opaque blocks of the provider, sent back to it with the results of the calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Value>,
    /// As the provider reported it, else an estimate.
    pub usage: Usage,
    /// Why it ended.
    pub stop: StopReason,
    /// The provider that answered, which is not always the first of a fallback list.
    pub provider: String,
    /// As the provider names it.
    pub model: String,
    /// From the sending to the first piece of text or thinking; absent: it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_to_first_token_ms: Option<i64>,
    /// How long the call waited in the queue for the provider; absent if it did not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_ms: Option<i64>,
    /// From the call to its end, with the time in the queue.
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
    /// `None`: the provider gave none.
    pub id: Option<String>,
    /// As the model wrote it, also of a tool that does not exist.
    pub name: String,
    /// As the model wrote it.
    pub arguments: String,
}

/// How a call failed, classified by what can be done about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelFailure {
    /// Decides whether another attempt is made.
    pub kind: FailureKind,
    /// A sentence for people; it has no secret.
    pub message: String,
    /// Absent: the provider did not answer.
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
    /// A failure of this kind about which nothing else is known.
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

/// How a model call failed, by what can be done about it.
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
