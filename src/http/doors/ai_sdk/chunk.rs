//! The chunks of a UI message stream, for versions 6 and 7 of the AI SDK, and version 5, which has no approvals. Their
//! schema is a closed union, so no other type may ever be sent.

use serde::Serialize;
use serde_json::Value;

use crate::http::doors::text_events::TextEvent;

/// One event of the stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub(super) enum Chunk {
    Start {
        message_id: String,
        message_metadata: Value,
    },
    StartStep,
    FinishStep,
    Finish {
        finish_reason: FinishReason,
        #[serde(skip_serializing_if = "Option::is_none")]
        message_metadata: Option<Value>,
    },
    Error {
        error_text: String,
    },
    Abort {
        reason: String,
    },
    TextStart {
        id: String,
    },
    TextDelta {
        id: String,
        delta: String,
    },
    TextEnd {
        id: String,
    },
    ReasoningStart {
        id: String,
    },
    ReasoningDelta {
        id: String,
        delta: String,
    },
    ReasoningEnd {
        id: String,
    },
    ToolInputStart(ToolHead),
    ToolInputAvailable {
        #[serde(flatten)]
        head: ToolHead,
        input: Value,
    },
    ToolApprovalRequest {
        approval_id: String,
        tool_call_id: String,
    },
    ToolOutputAvailable {
        tool_call_id: String,
        output: Value,
        /// As in its [`ToolHead`]: version 5 looks for the call only among those of its kind.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        dynamic: bool,
    },
    ToolOutputError {
        tool_call_id: String,
        error_text: String,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        dynamic: bool,
    },
    ToolOutputDenied {
        tool_call_id: String,
    },
    SourceUrl {
        source_id: String,
        url: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<String>,
    },
    /// The client replaces the data part that has this id.
    DataPlan {
        id: String,
        data: Value,
    },
    DataQuestion {
        id: String,
        data: Value,
    },
    DataSuggestions {
        id: String,
        data: Value,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FinishReason {
    Stop,
    Length,
    ToolCalls,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolHead {
    pub(super) tool_call_id: String,
    pub(super) tool_name: String,
    /// The page has no type for the tool.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) dynamic: bool,
    /// The server makes the call; else the page does.
    pub(super) provider_executed: bool,
}

impl Chunk {
    pub(super) fn json(&self) -> Value {
        serde_json::to_value(self).expect("our own types have string keys and finite numbers")
    }
}

impl From<TextEvent> for Chunk {
    fn from(event: TextEvent) -> Self {
        match event {
            TextEvent::AnswerStart { id } => Chunk::TextStart { id },
            TextEvent::AnswerDelta { id, delta } => Chunk::TextDelta { id, delta },
            TextEvent::AnswerEnd { id } => Chunk::TextEnd { id },
            TextEvent::ThoughtStart { id } => Chunk::ReasoningStart { id },
            TextEvent::ThoughtDelta { id, delta } => Chunk::ReasoningDelta { id, delta },
            TextEvent::ThoughtEnd { id } => Chunk::ReasoningEnd { id },
        }
    }
}
