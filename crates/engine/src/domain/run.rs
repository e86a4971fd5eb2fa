//! A run: one query, its settings, its outcome.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::fault::Code;
use super::hitl::SuspensionKind;
use super::ids::{CallId, ItemId, MessageId, RunId, ThreadId};
use super::message::HistoryMessage;
use super::model::{Phase, Usage};
use super::settings::RunSettings;
use super::trace::{CallTrace, TraceOrigin};
use super::usage::Nanos;
use super::{Millis, words};

mod shown;

pub use shown::{AgentFinalResponse, ExecutionMetadata, LlmTotals, RunResource};

words! {
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    #[derive(Default)]
    pub enum RunStatus {
        #[default]
        Queued = "queued",
        Running = "running",
        Suspended = "suspended",
        Waiting = "waiting",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

impl RunStatus {
    pub fn is_terminal(self) -> bool {
        match self {
            RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled => true,
            RunStatus::Queued | RunStatus::Running | RunStatus::Suspended | RunStatus::Waiting => false,
        }
    }
}

/// Why a run is queued on a thread that has no active one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum QueuedReason {
    /// Its tenant has as many runs under way as it may.
    TenantBusy,
}

/// A run's status as its callers see it: more detailed than `RunStatus` if they have something to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallerStatus {
    #[default]
    Queued,
    Running,
    Waiting,
    /// It waits for an answer.
    Suspended,
    /// It waits until a person has signed in elsewhere.
    NeedsAuth,
    Completed,
    Failed,
    /// It did not begin, and never will.
    Refused,
    Cancelled,
}

/// The prefix of the requester names of schedules.
pub const SCHEDULE_PREFIX: &str = "schedule:";

impl Run {
    /// The key whose spending caps apply to the run: the one that requested it, or for a schedule the one that wrote the
    /// schedule last.
    pub fn payer(&self) -> Option<&String> {
        let is_schedule = self.requested_by.first().is_some_and(|name| name.starts_with(SCHEDULE_PREFIX));
        self.requested_by.get(usize::from(is_schedule && self.requested_by.len() > 1))
    }

    /// The trace headers of the run's call with this idempotency key or stream id.
    pub fn call_trace(&self, key: &str) -> CallTrace {
        self.trace.call(&self.trace_id, key)
    }

    /// Sets the status of a run without open questions, and its caller status.
    pub fn set_status(&mut self, status: RunStatus, now: Millis) {
        let caller_status = CallerStatus::at_end(status, self.outcome.as_ref());
        if self.caller_status != caller_status {
            (self.caller_status, self.since) = (caller_status, now);
        }
        self.status = status;
    }
}

impl CallerStatus {
    /// The caller status of a run that is not over. `asked` is the kind of the oldest open question, which can be
    /// answered at once, even if other parts of the run are still running.
    pub fn of(status: RunStatus, asked: Option<SuspensionKind>) -> Self {
        match (status, asked) {
            (RunStatus::Queued, _) => CallerStatus::Queued,
            (RunStatus::Completed, _) => CallerStatus::Completed,
            (RunStatus::Failed, _) => CallerStatus::Failed,
            (RunStatus::Cancelled, _) => CallerStatus::Cancelled,
            (RunStatus::Running | RunStatus::Waiting | RunStatus::Suspended, Some(SuspensionKind::PeerAuth)) => {
                CallerStatus::NeedsAuth
            }
            (RunStatus::Suspended, _) | (RunStatus::Running | RunStatus::Waiting, Some(_)) => CallerStatus::Suspended,
            (RunStatus::Running, None) => CallerStatus::Running,
            (RunStatus::Waiting, None) => CallerStatus::Waiting,
        }
    }

    /// The caller status of a run with this end.
    pub fn at_end(status: RunStatus, outcome: Option<&Outcome>) -> Self {
        let error = outcome.and_then(|outcome| outcome.error.as_ref());
        if error.is_some_and(|error| error.code == Code::TaskRefused) {
            CallerStatus::Refused
        } else {
            CallerStatus::of(status, None)
        }
    }

    /// Whether the run has an open question.
    pub fn asks(self) -> bool {
        matches!(self, CallerStatus::Suspended | CallerStatus::NeedsAuth)
    }
}

words! {
    /// The `metadata.status` of a final response. `success`: the run completed, and nothing of the following holds.
    /// `partial`: it completed, but an item failed or was cancelled other than by an edit of the plan, a tool's last call in
    /// an item was an error (in a completed item, that of an unknown or disabled tool does not count), a message that arrived
    /// meanwhile was not considered, new items were left out because the plan was full, or its plan or answer was cut short;
    /// `metadata.errors` lists which. `error`: it failed.
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    pub enum ResultStatus {
        Success = "success",
        Partial = "partial",
        Error = "error",
    }
}

/// A caller's request, resolved: the body of `process`, who sent it, and its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ask {
    pub query: Arc<str>,
    /// The metadata of the user's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    pub trace_id: String,
    #[serde(default, skip_serializing_if = "crate::domain::is_default")]
    pub trace: TraceOrigin,
    #[serde(default)]
    pub on_busy: OnBusy,
    /// The name of the key that asked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub requested_by: String,
    /// Others who shaped the request: they may not approve its calls either.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shaped_by: Vec<String>,
    /// A conversation from elsewhere, oldest first: the thread's conversation begins with it. Refused if anything has
    /// happened on the thread, and by a core that keeps no conversation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<HistoryMessage>,
    pub settings: RunSettings,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum OnBusy {
    #[default]
    Enqueue,
    Steer,
    Interrupt,
    Reject,
}

/// A run as it is stored (row kind `run`); `RunResource` is what clients see of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    pub run_id: RunId,
    pub thread_id: ThreadId,
    pub status: RunStatus,
    /// Why it is queued, if not because of the thread's active run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<QueuedReason>,
    pub message_id: MessageId,
    /// Shared, because it may have a megabyte, and a run is copied wherever its status goes.
    pub query: Arc<str>,
    /// The metadata of the user's message; large members are payload references.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    pub trace_id: String,
    /// The caller's trace context, besides the trace id.
    #[serde(default, skip_serializing_if = "crate::domain::is_default")]
    pub trace: TraceOrigin,
    /// The names of the keys that asked for it, steered it, edited its plan or wrote the instructions of its thread.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requested_by: Vec<String>,
    #[serde(default, rename = "standing")]
    pub caller_status: CallerStatus,
    /// Since when it has this caller status.
    #[serde(default)]
    pub since: Millis,
    pub created_at: Millis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Millis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Millis>,
    pub settings: Arc<RunSettings>,
    #[serde(default)]
    pub counters: Counters,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

/// Summed over the run, item by item and call by call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Counters {
    pub llm_calls: u32,
    pub tool_calls: u32,
    pub tool_errors: u32,
    pub usage: Usage,
    pub total_generation_ms: i64,
    /// The cost of the calls with a known price; `None`: there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_nanos: Option<Nanos>,
}

/// How a run ended, except for a cancelled one, which has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    pub status: ResultStatus,
    /// The answer, or the sentence that says what failed. `content` may be long: it is the one stored in `messages`.
    pub message_id: MessageId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    /// The parts of the run that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<RunFailure>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunError {
    pub code: Code,
    pub message: String,
    pub phase: Phase,
}

/// A part of a run that failed: an item, a tool's last call in an item, or the run itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunFailure {
    pub phase: Phase,
    pub code: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_id: Option<ItemId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
}

impl From<&RunError> for RunFailure {
    fn from(error: &RunError) -> Self {
        Self {
            phase: error.phase,
            code: error.code.as_str().to_owned(),
            message: error.message.clone(),
            item_id: None,
            call_id: None,
            tool_name: None,
        }
    }
}
