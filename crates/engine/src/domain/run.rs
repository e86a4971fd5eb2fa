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
    /// How far a run is. Each of the last three is final.
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    #[derive(Default)]
    pub enum RunStatus {
        /// It waits for the active run of its thread, or for its tenant's turn.
        #[default]
        Queued = "queued",
        /// Something of it works, or may.
        Running = "running",
        /// It waits for a person, and nothing of it works.
        Suspended = "suspended",
        /// It waits for other agents, and nothing of it works.
        Waiting = "waiting",
        /// It has an answer.
        Completed = "completed",
        /// It ended without one; `error` says why.
        Failed = "failed",
        /// It was ended by a cancel.
        Cancelled = "cancelled",
    }
}

impl RunStatus {
    /// Whether the status is final.
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
    /// It has not begun.
    #[default]
    Queued,
    /// It works, or may.
    Running,
    /// It waits for other agents.
    Waiting,
    /// It waits for an answer.
    Suspended,
    /// It waits until a person has signed in elsewhere.
    NeedsAuth,
    /// It has an answer.
    Completed,
    /// It ended without one.
    Failed,
    /// It did not begin, and never will.
    Refused,
    /// It was ended by a cancel after it had begun.
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
        /// The run completed without any fault.
        Success = "success",
        /// The run completed, with faults that `metadata.errors` lists.
        Partial = "partial",
        /// The run failed.
        Error = "error",
    }
}

/// A caller's request, resolved: the body of `process`, who sent it, and its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ask {
    /// What the user asks.
    pub query: Arc<str>,
    /// The metadata of the user's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// The caller's own id of its user: tools get it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The caller's own id of a session: stored with the run, not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// A W3C trace id: the caller's, or one of this server.
    pub trace_id: String,
    /// The caller's trace context, besides the trace id.
    #[serde(default, skip_serializing_if = "crate::domain::is_default")]
    pub trace: TraceOrigin,
    /// What happens if a run is active.
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
    /// Merged from server, thread and call.
    pub settings: RunSettings,
}

/// What happens to a request while a run of its thread is active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum OnBusy {
    /// The run waits behind it.
    #[default]
    Enqueue,
    /// The message goes into the active run, if that can still take it; else its run waits behind it.
    Steer,
    /// The active run is cancelled, and this one begins next.
    Interrupt,
    /// The request is refused with `thread_busy`.
    Reject,
}

/// A run as it is stored (row kind `run`); `RunResource` is what clients see of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Made by the code that accepted the request.
    pub run_id: RunId,
    /// The thread that it belongs to.
    pub thread_id: ThreadId,
    /// Derived from its slots.
    pub status: RunStatus,
    /// Why it is queued, if not because of the thread's active run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<QueuedReason>,
    /// The user's message.
    pub message_id: MessageId,
    /// Shared, because it may have a megabyte, and a run is copied wherever its status goes.
    pub query: Arc<str>,
    /// The metadata of the user's message; large members are payload references.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// The caller's own id of its user: tools get it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The caller's own id of a session: stored with the run, not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// A W3C trace id: the caller's, or one of this server.
    pub trace_id: String,
    /// The caller's trace context, besides the trace id.
    #[serde(default, skip_serializing_if = "crate::domain::is_default")]
    pub trace: TraceOrigin,
    /// The names of the keys that asked for it, steered it, edited its plan or wrote the instructions of its thread.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requested_by: Vec<String>,
    /// What lists of runs filter by.
    #[serde(default, rename = "standing")]
    pub caller_status: CallerStatus,
    /// Since when it has this caller status.
    #[serde(default)]
    pub since: Millis,
    /// When it was accepted, in Unix milliseconds.
    pub created_at: Millis,
    /// When it began, in Unix milliseconds; `None`: it is or was only queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Millis>,
    /// In Unix milliseconds; `None` until it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Millis>,
    /// As they were when it was accepted: later changes of the thread do not reach it.
    pub settings: Arc<RunSettings>,
    /// What it has used so far.
    #[serde(default)]
    pub counters: Counters,
    /// Present once it has completed or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

/// Summed over the run, item by item and call by call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Counters {
    /// Model calls that ended, each attempt for itself.
    pub llm_calls: u32,
    /// Calls that ended, without those that were not made.
    pub tool_calls: u32,
    /// Those whose result is an error.
    pub tool_errors: u32,
    /// The tokens of its model calls.
    pub usage: Usage,
    /// Time of its model calls, in milliseconds; calls at the same time count each.
    pub total_generation_ms: i64,
    /// The cost of the calls with a known price; `None`: there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_nanos: Option<Nanos>,
}

/// How a run ended, except for a cancelled one, which has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Whether the answer is whole.
    pub status: ResultStatus,
    /// The answer, or the sentence that says what failed. `content` may be long: it is the one stored in `messages`.
    pub message_id: MessageId,
    /// Present if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    /// The parts of the run that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<RunFailure>,
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunError {
    /// One of the run's own codes.
    pub code: Code,
    /// A sentence for people.
    pub message: String,
    /// The part of the flow in which it failed.
    pub phase: Phase,
}

/// A part of a run that failed: an item, a tool's last call in an item, or the run itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunFailure {
    /// The part of the flow that it belongs to.
    pub phase: Phase,
    /// The code of an item, a call or a run, as docs/ERRORS.md lists them.
    pub code: String,
    /// A sentence for people.
    pub message: String,
    /// Present if an item or a call of one failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_id: Option<ItemId>,
    /// Present if a call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    /// The tool of the call.
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
