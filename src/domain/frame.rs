//! Live frames: everything that a stream of events sends.

use serde::{Deserialize, Serialize};

use super::Millis;
use super::ids::{CallId, ItemId, RunId, StreamId, ThreadId};
use super::model::Phase;
use super::observation::Observation;
use super::policy::Ruling;
use super::run::RunResource;

/// A tool call begins: its arguments are judged, and it is about to be made. Not stored: its result is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolStarted {
    pub thread_id: ThreadId,
    pub run_id: RunId,
    /// The item that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<ItemId>,
    pub call_id: CallId,
    pub tool_name: String,
    pub attempt: u32,
    /// What was decided about it, and by which rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Ruling>,
    /// SHA-256, hex, of tool and arguments, where a person approved them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    pub timestamp: Millis,
}

/// Everything a live stream says; serialises as `{"event": NAME, "data": …}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", content = "data", rename_all = "snake_case")]
pub enum Frame {
    Observation(Box<Observation>),
    Token(Token),
    Run(Box<RunResource>),
    ToolStarted(Box<ToolStarted>),
    CaughtUp {
        seq: i64,
    },
    #[serde(rename_all = "camelCase")]
    Gap {
        from_seq: i64,
    },
    #[serde(rename_all = "camelCase")]
    Draining {
        retry_in_ms: i64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
pub enum TokenType {
    #[serde(rename = "PLANNING_LLM_THINKING")]
    PlanningThinking,
    #[serde(rename = "PLANNING_LLM_RESPONSE")]
    PlanningResponse,
    #[serde(rename = "EXECUTION_LLM_THINKING")]
    ExecutionThinking,
    #[serde(rename = "EXECUTION_LLM_RESPONSE")]
    ExecutionResponse,
    #[serde(rename = "SYNTHESIS_LLM_THINKING")]
    SynthesisThinking,
    #[serde(rename = "SYNTHESIS_LLM_RESPONSE")]
    SynthesisResponse,
}

impl TokenType {
    pub fn of(phase: Phase, thinking: bool) -> Self {
        match (phase, thinking) {
            (Phase::Planning, true) => TokenType::PlanningThinking,
            (Phase::Planning, false) => TokenType::PlanningResponse,
            (Phase::Execution, true) => TokenType::ExecutionThinking,
            (Phase::Execution, false) => TokenType::ExecutionResponse,
            (Phase::Synthesis, true) => TokenType::SynthesisThinking,
            (Phase::Synthesis, false) => TokenType::SynthesisResponse,
        }
    }
}

/// A piece of text on its way; never stored, has no seq.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Token {
    #[serde(rename = "type")]
    pub kind: TokenKind,
    pub data: String,
    pub token_type: TokenType,
    pub phase: Phase,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<ItemId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_description: Option<String>,
    pub stream_id: StreamId,
    /// UTF-8 bytes of this (stream, token type) before this piece.
    pub offset: u64,
    pub thread_id: ThreadId,
    pub run_id: RunId,
    pub trace_id: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub enum TokenKind {
    #[default]
    #[serde(rename = "TOKEN")]
    Token,
}
