//! Facts about a run: its start, its subject, its answer, its errors, its end.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::domain::Millis;
use crate::domain::fault::Code;
use crate::domain::ids::{MessageId, RunId, ThreadId};
use crate::domain::message::{ConversationMessage, MessageRole};
use crate::domain::model::{Phase, Usage};
use crate::domain::run::{ResultStatus, RunStatus};
use crate::domain::settings::RunOptions;

/// `RUN_STARTED`: a run begins with this message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunStartedBody {
    /// The text of `message`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub query: Value,
    /// The user's message.
    #[cfg_attr(feature = "schema", schema(value_type = ConversationMessage))]
    pub message: RecordedMessage,
    /// The model that is asked first, as its provider names it.
    pub model: String,
    /// The provider of that model.
    pub provider: String,
    /// The settings in effect, merged from server, thread and call; absent in old logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<RunOptions>))]
    pub options: Option<Box<RunOptions>>,
}

/// `INTENT`: what the user wants, as the model understood it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct IntentBody {
    /// One sentence; empty if the model gave none.
    pub intent: String,
}

/// `TITLE`: the title of the plan. A thread without a title takes it, and keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TitleBody {
    /// At most ten words.
    pub title: String,
}

/// The progress of the synthesis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum SynthesisStatus {
    /// The model is asked for the answer.
    Started,
    /// The answer is there.
    Completed,
}

/// `SYNTHESIS`: the items are settled, and the answer is being written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SynthesisBody {
    /// Whether it begins or is done.
    pub status: SynthesisStatus,
    /// Items that have a result.
    pub completed_items: usize,
    /// Items that ended without one.
    pub failed_items: usize,
}

/// `FINAL_RESPONSE`: the answer of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FinalResponseBody {
    /// What the answer has besides its text; the metadata of the message has the same.
    #[serde(default, deserialize_with = "crate::domain::present", skip_serializing_if = "Option::is_none")]
    pub ui_metadata: Option<Value>,
    /// The agent's message.
    #[cfg_attr(feature = "schema", schema(value_type = ConversationMessage))]
    pub message: RecordedMessage,
}

/// `ERROR`: something failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ErrorBody {
    /// The part of the flow in which it failed.
    pub phase: Phase,
    /// As docs/ERRORS.md lists them.
    pub code: String,
    /// A sentence for people; it has no secret.
    pub message: String,
    /// It ends the run.
    pub fatal: bool,
    /// Another attempt may succeed.
    pub retryable: bool,
    /// The provider whose model did not answer; absent if the failure is not that of a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model that did not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How many attempts were made, with all models of the list together; some may not have been sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
}

impl ErrorBody {
    /// Whether the answer that follows, if any, is incomplete: the budget was spent, or the synthesis was cut off.
    pub fn cuts_the_answer(&self) -> bool {
        self.code == Code::BudgetExceeded.as_str()
            || (self.code == Code::SynthesisFailed.as_str() && self.phase == Phase::Synthesis)
    }
}

/// `RUN_FINISHED`: the last observation of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunFinishedBody {
    /// How the run ended.
    pub status: RunStatus,
    /// From its beginning to its end, the time in which it waited included, in milliseconds.
    pub total_duration_ms: i64,
    /// Model calls that ended, each attempt for itself.
    pub llm_calls: u32,
    /// Calls that ended, without those that were not made.
    pub tool_calls: u32,
    /// The tokens of its model calls.
    pub usage: Usage,
    /// In US dollars, of the calls with a known price; absent: there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Absent if the run was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_status: Option<ResultStatus>,
}

/// A message as observations hold it: large values in it are references to payloads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedMessage {
    /// The id that lists of messages and other observations name it by.
    pub message_id: MessageId,
    /// The thread whose conversation it belongs to.
    pub thread_id: ThreadId,
    /// Who speaks.
    pub role: MessageRole,
    /// The text.
    pub content: Value,
    /// In Unix milliseconds.
    pub timestamp: Millis,
    /// The run that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The name of the key that sent it; absent if no caller did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_by: Option<String>,
    /// Of a user's message what the caller sent with it; of an answer its `uiMetadata` or its error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

impl RecordedMessage {
    /// `content` is the message's text in its stored form.
    pub fn of(message: &ConversationMessage, content: Value) -> Self {
        Self {
            message_id: message.message_id.clone(),
            thread_id: message.thread_id.clone(),
            role: message.role,
            content,
            timestamp: message.timestamp,
            run_id: message.run_id.clone(),
            requested_by: message.requested_by.clone(),
            metadata: message.metadata.clone(),
        }
    }

    /// Whether it says why a run failed ([`ConversationMessage::ERROR`]).
    pub fn is_error(&self) -> bool {
        self.metadata.as_ref().is_some_and(|metadata| metadata.contains_key(ConversationMessage::ERROR))
    }

    /// The message, once its payloads are inlined; `None`: its text is still a reference.
    pub fn whole(&self) -> Option<ConversationMessage> {
        Some(ConversationMessage {
            message_id: self.message_id.clone(),
            thread_id: self.thread_id.clone(),
            role: self.role,
            content: self.content.as_str()?.to_owned(),
            timestamp: self.timestamp,
            run_id: self.run_id.clone(),
            requested_by: self.requested_by.clone(),
            metadata: self.metadata.clone(),
        })
    }
}
