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
        /// What an observation tells; the word of it in JSON is in capitals.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum ObservationType { $(
            #[doc = concat!("`", $text, "`; its content is [`Fact::", stringify!($name), "`].")]
            #[serde(rename = $text)] $name,
        )+ }

        impl ObservationType {
            /// In the order of the definition.
            pub const ALL: &'static [ObservationType] = &[$(ObservationType::$name,)+];

            /// The word as it stands in JSON and in the database.
            pub fn as_str(self) -> &'static str {
                match self { $(ObservationType::$name => $text,)+ }
            }
            /// `None`: there is no type of this name.
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
    /// Made by the engine, so a reader that gets an observation twice knows it by this.
    pub id: ObservationId,
    /// Empty for changes that people made on an idle thread.
    pub run_id: RunId,
    /// The todo item that it belongs to; absent: it belongs to the run as a whole.
    pub parent_id: Option<ItemId>,
    /// That of the run; empty without a run.
    pub trace_id: String,
    /// The time of the decision that recorded it.
    pub timestamp: Millis,
    /// One line for people, in English.
    pub title: String,
    /// What happened; large values are references to payloads.
    pub fact: Fact,
    /// Who did it, which rule decided it, and what its prompt left out; `None`: none of these is known.
    pub metadata: Option<RecordMetadata>,
}

impl Record {
    /// The type of its fact.
    pub fn kind(&self) -> ObservationType {
        self.fact.kind()
    }
}

/// A recorded fact, and its position in its thread's log.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The thread in whose log it stands.
    pub thread_id: ThreadId,
    /// Its position: from 1, without gaps.
    pub seq: i64,
    /// The todo item that it belongs to; absent: it belongs to the run as a whole.
    pub parent_id: Option<ItemId>,
    /// The time of the decision that recorded it.
    pub timestamp: Millis,
    /// Its content, with references to payloads.
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
    /// Its position in the log of its thread: from 1, without gaps, durable before it is sent.
    pub seq: i64,
    /// Unique in all threads.
    pub id: ObservationId,
    /// The thread in whose log it stands.
    pub thread_id: ThreadId,
    /// Empty, like `traceId`, if no run was active: for changes that people made on an idle thread.
    pub run_id: RunId,
    /// The todo item that it belongs to; absent: it belongs to the run as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<ItemId>,
    /// The W3C trace id of the run.
    pub trace_id: String,
    /// When it was recorded, in Unix milliseconds.
    pub timestamp: Millis,
    /// Says which members `content` has.
    #[serde(rename = "type")]
    pub kind: ObservationType,
    /// One line for people, in English.
    pub title: String,
    /// The members that docs/EVENTS.md lists for the type, with large values inline.
    pub content: Value,
    /// Who did it (`by`), which rule decided it (`policy`), and what its prompt left out (`context`); absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
}

impl Observation {
    /// The observation that `record` becomes at this position of its thread.
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
