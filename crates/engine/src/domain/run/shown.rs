//! A run as clients see it: its resource, and the answer in which it ended.

use serde::{Deserialize, Serialize};

use super::{QueuedReason, ResultStatus, Run, RunError, RunFailure, RunStatus};
use crate::domain::Millis;
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::message::ConversationMessage;
use crate::domain::model::Usage;
use crate::domain::settings::RunOptions;
use crate::domain::usage::usd;

/// The contract's `AgentFinalResponse`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AgentFinalResponse {
    /// The agent's message, or the sentence that says what failed.
    pub response: ConversationMessage,
    /// What became of the run, and what it used.
    pub metadata: ExecutionMetadata,
}

/// What a run used, and how it ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExecutionMetadata {
    /// The thread of the run.
    pub thread_id: ThreadId,
    /// The run that this is the answer of.
    pub run_id: RunId,
    /// A W3C trace id: the caller's, or one of this server.
    pub trace_id: String,
    /// The caller's own id of its user, as it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// Whether the answer is whole.
    pub status: ResultStatus,
    /// From its beginning to its end, the time in which it waited included, in milliseconds.
    pub total_duration_ms: i64,
    /// Model calls that ended, each attempt for itself.
    pub llm_calls: u32,
    /// Calls that ended, without those that were not made.
    pub tool_calls: u32,
    /// Those whose result is an error.
    pub tool_errors: u32,
    /// In US dollars, of the calls with a known price; absent: there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm_cost: Option<f64>,
    /// Present if the run failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    /// The parts that failed, also of a run with an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<RunFailure>,
    /// The totals of its model calls.
    pub llm_metadata: LlmTotals,
}

/// The totals of a run's model calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LlmTotals {
    /// The tokens of all calls.
    #[serde(flatten)]
    pub usage: Usage,
    /// In milliseconds; calls at the same time count each.
    pub total_generation_time_ms: i64,
}

/// `GET /runs/{runId}` and the `run` event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunResource {
    /// Unique on this server.
    pub run_id: RunId,
    /// The thread that it belongs to.
    pub thread_id: ThreadId,
    /// How far it is.
    pub status: RunStatus,
    /// Why it is queued, if it does not wait for the thread's active run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<QueuedReason>,
    /// What the user asked.
    pub query: String,
    /// A W3C trace id: the caller's, or one of this server.
    pub trace_id: String,
    /// The client's own id of the trace, if that is not a W3C trace id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_trace_id: Option<String>,
    /// The caller's own id of its user, as it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The names of the keys that asked for it, steered it, edited its plan or wrote the instructions of its thread.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requested_by: Vec<String>,
    /// The model that was asked first.
    pub model: String,
    /// The provider of that model.
    pub provider: String,
    /// The settings in effect.
    #[serde(default)]
    pub options: RunOptions,
    /// When it was accepted, in Unix milliseconds.
    pub created_at: Millis,
    /// When it began, in Unix milliseconds; absent: it is or was only queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Millis>,
    /// In Unix milliseconds; absent until it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Millis>,
    /// Model calls that ended, each attempt for itself.
    pub llm_calls: u32,
    /// Calls that ended, without those that were not made.
    pub tool_calls: u32,
    /// The tokens of its model calls.
    pub usage: Usage,
    /// In US dollars, of the calls with a known price; absent: there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The URL of the run in the console page; absent if no address of the server for people is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Present once it has completed or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<AgentFinalResponse>,
}

impl Run {
    /// What clients see; `response` is the stored message that `outcome` names.
    pub fn resource(&self, response: Option<ConversationMessage>) -> RunResource {
        RunResource {
            run_id: self.run_id.clone(),
            thread_id: self.thread_id.clone(),
            status: self.status,
            reason: self.reason,
            query: self.query.to_string(),
            trace_id: self.trace_id.clone(),
            client_trace_id: self.trace.client_trace_id.clone(),
            user_id: self.user_id.clone(),
            requested_by: self.requested_by.clone(),
            model: self.settings.model.clone(),
            provider: self.settings.provider.clone(),
            options: self.settings.options(),
            created_at: self.created_at,
            started_at: self.started_at,
            finished_at: self.finished_at,
            llm_calls: self.counters.llm_calls,
            tool_calls: self.counters.tool_calls,
            usage: self.counters.usage.clone(),
            cost_usd: self.counters.cost_nanos.map(usd),
            url: None,
            result: response.and_then(|message| self.final_response(message)),
        }
    }

    /// The contract's `AgentFinalResponse`, once there is an outcome.
    pub fn final_response(&self, response: ConversationMessage) -> Option<AgentFinalResponse> {
        let outcome = self.outcome.as_ref()?;
        Some(AgentFinalResponse {
            response,
            metadata: ExecutionMetadata {
                thread_id: self.thread_id.clone(),
                run_id: self.run_id.clone(),
                trace_id: self.trace_id.clone(),
                user_id: self.user_id.clone(),
                status: outcome.status,
                total_duration_ms: self.finished_at.unwrap_or(self.created_at)
                    - self.started_at.unwrap_or(self.created_at),
                llm_calls: self.counters.llm_calls,
                tool_calls: self.counters.tool_calls,
                tool_errors: self.counters.tool_errors,
                llm_cost: self.counters.cost_nanos.map(usd),
                error: outcome.error.clone(),
                errors: outcome.errors.clone(),
                llm_metadata: LlmTotals {
                    usage: self.counters.usage.clone(),
                    total_generation_time_ms: self.counters.total_generation_ms,
                },
            },
        })
    }
}
