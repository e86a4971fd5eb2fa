//! Facts about model calls: their start, their usage, their reply, their failure.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::Millis;
use crate::domain::ids::StreamId;
use crate::domain::model::{FailureKind, Phase, StopReason, Usage};

/// The purpose of a model call that is not a step of the run itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// It summarises the oldest messages of the conversation.
    Summary,
}

/// `LLM_STREAM_START`: an attempt at a model call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LlmStreamStartBody {
    /// New for each attempt: its tokens carry it.
    pub stream_id: StreamId,
    /// The part of the flow that the call serves.
    pub phase: Phase,
    /// The provider that is asked first.
    pub provider: String,
    /// The model that is asked first, as its provider names it.
    pub model: String,
    /// From 1; a retry of the same call has the next one.
    pub attempt: u32,
    /// The iteration of an item's loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
    /// What the call is for, if its phase does not say that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<Purpose>,
}

/// `LLM_STREAM_METADATA`: the tokens, the times and the cost of a reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LlmStreamMetadataBody {
    /// The attempt that replied.
    pub stream_id: StreamId,
    /// Those of the prompt, cached ones included.
    pub input_tokens: u64,
    /// Those of the reply, thinking included.
    pub output_tokens: u64,
    /// Included in the output.
    pub thinking_tokens: u64,
    /// Included in the input.
    pub cached_input_tokens: u64,
    /// `null`: it was not measured.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub time_to_first_token_ms: Option<i64>,
    /// How long the call waited in the queue for the provider, which is included in the times beside it; absent if it
    /// did not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_ms: Option<i64>,
    /// From the call to its end, in milliseconds.
    pub total_generation_time_ms: i64,
    /// Why the model stopped.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub stop_reason: StopReason,
    /// The provider that answered.
    pub provider: String,
    /// As the provider names it.
    pub model: String,
    /// In US dollars; absent: no price is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The digest of the messages that were sent, to compare with messages that are rendered again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_digest: Option<String>,
}

impl LlmStreamMetadataBody {
    /// Its four counts of tokens.
    pub fn usage(&self) -> Usage {
        Usage {
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            thinking_tokens: self.thinking_tokens,
            cached_input_tokens: self.cached_input_tokens,
        }
    }
}

/// `LLM_STREAM_END`: the whole reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LlmStreamEndBody {
    /// The attempt that replied.
    pub stream_id: StreamId,
    /// All that its tokens said; may be a payload reference in storage.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub text: Value,
    /// All that its thinking tokens said; absent: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub thinking: Option<Value>,
}

/// `LLM_STREAM_ERROR`: an attempt failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LlmStreamErrorBody {
    /// The attempt that failed.
    pub stream_id: StreamId,
    /// What can be done about it.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub code: FailureKind,
    /// A sentence for people; it has no secret.
    pub message: String,
    /// Another attempt follows.
    pub retryable: bool,
    /// Absent: the provider did not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_status: Option<u16>,
    /// When the next attempt is made, in milliseconds from now; absent: none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_in_ms: Option<Millis>,
}

/// `THOUGHTS`: the thinking of a model before its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThoughtsBody {
    /// The attempt whose thinking it is.
    pub stream_id: StreamId,
    /// The part of the flow that the call served.
    pub phase: Phase,
    /// The thinking as the provider showed it; may be a payload reference in storage.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub text: Value,
}
