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
    pub stream_id: StreamId,
    pub phase: Phase,
    pub provider: String,
    pub model: String,
    pub attempt: u32,
    /// The iteration of an item's loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<Purpose>,
}

/// `LLM_STREAM_METADATA`: the tokens, the times and the cost of a reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LlmStreamMetadataBody {
    pub stream_id: StreamId,
    pub input_tokens: u64,
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
    pub total_generation_time_ms: i64,
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub stop_reason: StopReason,
    /// The provider that answered.
    pub provider: String,
    pub model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The digest of the messages that were sent, to compare with messages that are rendered again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_digest: Option<String>,
}

impl LlmStreamMetadataBody {
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
    pub stream_id: StreamId,
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub text: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub thinking: Option<Value>,
}

/// `LLM_STREAM_ERROR`: an attempt failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LlmStreamErrorBody {
    pub stream_id: StreamId,
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub code: FailureKind,
    pub message: String,
    /// Another attempt follows.
    pub retryable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_in_ms: Option<Millis>,
}

/// `THOUGHTS`: the thinking of a model before its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThoughtsBody {
    pub stream_id: StreamId,
    pub phase: Phase,
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub text: Value,
}
