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
    /// The thread whose run calls.
    pub thread_id: ThreadId,
    /// The run that calls.
    pub run_id: RunId,
    /// The item that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<ItemId>,
    /// The call, as observations name it.
    pub call_id: CallId,
    /// The name as the model wrote it.
    pub tool_name: String,
    /// From 1; a retry of the same call has the next one.
    pub attempt: u32,
    /// What was decided about it, and by which rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Ruling>,
    /// SHA-256, hex, of tool and arguments, where a person approved them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// In Unix milliseconds.
    pub timestamp: Millis,
}

/// Everything a live stream says; serialises as `{"event": NAME, "data": …}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", content = "data", rename_all = "snake_case")]
pub enum Frame {
    /// Something was committed: exactly once, in the order of the log.
    Observation(Box<Observation>),
    /// A model writes.
    Token(Token),
    /// The status of a run changed.
    Run(Box<RunResource>),
    /// A tool is about to be called.
    ToolStarted(Box<ToolStarted>),
    /// What was there before is sent; what follows is live.
    CaughtUp {
        /// The seq of the newest observation then.
        seq: i64,
    },
    /// Observations before this place are not sent: they are removed, or this reader was too slow.
    #[serde(rename_all = "camelCase")]
    Gap {
        /// Where the stream goes on: the first seq that there is.
        from_seq: i64,
    },
    /// The server stops; connect again.
    #[serde(rename_all = "camelCase")]
    Draining {
        /// After how long that may succeed, in milliseconds.
        retry_in_ms: i64,
    },
}

/// Whose words a token has, by the part of the flow and whether it is thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
pub enum TokenType {
    /// What the model thinks while it makes, refines or repairs a plan.
    #[serde(rename = "PLANNING_LLM_THINKING")]
    PlanningThinking,
    /// The plan as the model writes it.
    #[serde(rename = "PLANNING_LLM_RESPONSE")]
    PlanningResponse,
    /// What the model thinks in a step of a todo item.
    #[serde(rename = "EXECUTION_LLM_THINKING")]
    ExecutionThinking,
    /// What the model writes in a step of a todo item.
    #[serde(rename = "EXECUTION_LLM_RESPONSE")]
    ExecutionResponse,
    /// What the model thinks before the answer.
    #[serde(rename = "SYNTHESIS_LLM_THINKING")]
    SynthesisThinking,
    /// The answer.
    #[serde(rename = "SYNTHESIS_LLM_RESPONSE")]
    SynthesisResponse,
}

impl TokenType {
    /// The type of the tokens of a call of this phase.
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
    /// Always `TOKEN`.
    #[serde(rename = "type")]
    pub kind: TokenKind,
    /// The text.
    pub data: String,
    /// Whose words these are.
    pub token_type: TokenType,
    /// The part of the flow that the call serves.
    pub phase: Phase,
    /// The todo item of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<ItemId>,
    /// The task of that item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_description: Option<String>,
    /// The attempt that writes: another attempt begins from offset 0.
    pub stream_id: StreamId,
    /// UTF-8 bytes of this (stream, token type) before this piece.
    pub offset: u64,
    /// The thread of the run.
    pub thread_id: ThreadId,
    /// The run that the call is made for.
    pub run_id: RunId,
    /// The W3C trace id of the run.
    pub trace_id: String,
}

/// The `type` of a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub enum TokenKind {
    #[default]
    #[serde(rename = "TOKEN")]
    Token,
}
