//! Observations: the durable, numbered facts of a thread.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::facts::{Fact, Unreadable};
use super::ids::{ItemId, ObservationId, RunId, ThreadId};
use super::model::ContextFit;
use super::policy::Ruling;
use super::{Millis, to_value};

macro_rules! kinds {
    ($($name:ident = $text:literal),+ $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum ObservationType { $(#[serde(rename = $text)] $name,)+ }

        impl ObservationType {
            pub const ALL: &'static [ObservationType] = &[$(ObservationType::$name,)+];

            pub fn as_str(self) -> &'static str {
                match self { $(ObservationType::$name => $text,)+ }
            }
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(ObservationType::$name),)+ _ => None }
            }
        }

        crate::domain::words_of!(ObservationType);
    };
}

kinds! {
    RunStarted = "RUN_STARTED",
    Intent = "INTENT",
    Title = "TITLE",
    Plan = "PLAN",
    PlanUpdate = "PLAN_UPDATE",
    ItemStatusChange = "ITEM_STATUS_CHANGE",
    LlmStreamStart = "LLM_STREAM_START",
    LlmStreamMetadata = "LLM_STREAM_METADATA",
    LlmStreamEnd = "LLM_STREAM_END",
    LlmStreamError = "LLM_STREAM_ERROR",
    Thoughts = "THOUGHTS",
    ToolCall = "TOOL_CALL",
    ToolExecution = "TOOL_EXECUTION",
    AgentSuspended = "AGENT_SUSPENDED",
    AgentResumed = "AGENT_RESUMED",
    SuspensionTimeout = "SUSPENSION_TIMEOUT",
    A2aTask = "A2A_TASK",
    StateUpdate = "STATE_UPDATE",
    Synthesis = "SYNTHESIS",
    FinalResponse = "FINAL_RESPONSE",
    Error = "ERROR",
    RunFinished = "RUN_FINISHED",
}

impl ObservationType {
    /// The types that determine a run's caller status: its start, its questions, their answers, and its end.
    pub const OF_CALLER_STATUS: [ObservationType; 7] = [
        ObservationType::RunStarted,
        ObservationType::AgentSuspended,
        ObservationType::AgentResumed,
        ObservationType::SuspensionTimeout,
        ObservationType::Error,
        ObservationType::FinalResponse,
        ObservationType::RunFinished,
    ];
}

/// A fact that the engine recorded, before it has its seq.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub id: ObservationId,
    pub run_id: RunId,
    pub parent_id: Option<ItemId>,
    pub trace_id: String,
    pub timestamp: Millis,
    pub title: String,
    pub fact: Fact,
    pub metadata: Option<RecordMetadata>,
}

impl Record {
    pub fn kind(&self) -> ObservationType {
        self.fact.kind()
    }
}

/// A recorded fact, and its position in its thread's log.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    pub thread_id: ThreadId,
    pub seq: i64,
    pub parent_id: Option<ItemId>,
    pub timestamp: Millis,
    pub fact: Fact,
}

/// The metadata of a fact: how it came about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordMetadata {
    /// What the model's prompt did not show in full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextFit>,
    /// The rule that decided it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Ruling>,
    /// Who did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl RecordMetadata {
    /// The `metadata` member of an observation.
    pub fn value(&self) -> Value {
        to_value(self)
    }
}

/// An observation as clients see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Observation {
    pub seq: i64,
    pub id: ObservationId,
    pub thread_id: ThreadId,
    /// Empty, like `traceId`, if no run was active: for changes that people made on an idle thread.
    pub run_id: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<ItemId>,
    pub trace_id: String,
    pub timestamp: Millis,
    #[serde(rename = "type")]
    pub kind: ObservationType,
    pub title: String,
    pub content: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
}

impl Observation {
    pub fn of(record: Record, thread_id: ThreadId, seq: i64) -> Self {
        let content = record.fact.content();
        Self::with_content(&record, content, thread_id, seq)
    }

    /// The same with another content than what was recorded.
    pub(crate) fn with_content(record: &Record, content: Value, thread_id: ThreadId, seq: i64) -> Self {
        Self {
            seq,
            id: record.id.clone(),
            thread_id,
            run_id: record.run_id.clone(),
            parent_id: record.parent_id.clone(),
            trace_id: record.trace_id.clone(),
            timestamp: record.timestamp,
            kind: record.fact.kind(),
            title: record.title.clone(),
            content,
            metadata: record.metadata.as_ref().map(RecordMetadata::value),
        }
    }

    /// The fact of an observation in its recorded form. In the form for readers, `PLAN` and `PLAN_UPDATE` have another
    /// shape.
    pub fn fact(&self) -> Result<Fact, Unreadable> {
        Fact::read(self.kind, &self.content).map_err(|why| Unreadable { seq: self.seq, kind: self.kind, why })
    }
}
