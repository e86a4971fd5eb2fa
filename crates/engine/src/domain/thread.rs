//! A thread as clients see it, and the limits that its engine enforces.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ids::{RunId, ThreadId};
use super::run::{ResultStatus, RunStatus};
use super::settings::ThreadConfig;
use super::{Millis, words};

/// What people may set on a thread. Changed by PATCH, read when a run is accepted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ThreadProfile {
    /// As a person gave it; `None`: the thread takes that of its first plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The settings that its runs have unless a call has others.
    pub config: ThreadConfig,
    /// The client's own; not read by the server.
    pub metadata: Map<String, Value>,
    /// The name of the key that wrote each entry of the `toolPolicy`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tool_policy_by: BTreeMap<String, String>,
    /// Set if the thread began as a copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkedFrom>,
}

words! {
    /// The status of a thread: that of its active run; without one idle, or failed if the last run failed; quarantined
    /// after repeated crashes.
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    #[derive(Default)]
    pub enum ThreadStatus {
        /// No run is active, and the last one did not fail.
        #[default]
        Idle = "idle",
        /// A run is queued or works.
        Running = "running",
        /// The active run waits for a person.
        Suspended = "suspended",
        /// The active run waits for other agents only.
        Waiting = "waiting",
        /// No run is active, and the last one failed.
        Failed = "failed",
        /// It takes no requests until it is released.
        Quarantined = "quarantined",
    }
}

impl ThreadStatus {
    /// Whether no run is active or queued.
    pub fn is_at_rest(self) -> bool {
        match self {
            ThreadStatus::Idle | ThreadStatus::Failed => true,
            // Its runs may not have been ended yet.
            ThreadStatus::Quarantined => false,
            ThreadStatus::Running | ThreadStatus::Suspended | ThreadStatus::Waiting => false,
        }
    }

    /// Whether the thread may be erased because of its age: nothing runs and nothing is awaited. A quarantined thread is
    /// not [at rest](Self::is_at_rest), but its runs do not continue until somebody releases it.
    pub fn may_be_erased(self) -> bool {
        match self {
            ThreadStatus::Idle | ThreadStatus::Failed | ThreadStatus::Quarantined => true,
            ThreadStatus::Running | ThreadStatus::Suspended | ThreadStatus::Waiting => false,
        }
    }

    /// The status of a thread whose active run has this one; idle if the run has ended.
    pub fn of_run(status: RunStatus) -> Self {
        match status {
            RunStatus::Running | RunStatus::Queued => ThreadStatus::Running,
            RunStatus::Suspended => ThreadStatus::Suspended,
            RunStatus::Waiting => ThreadStatus::Waiting,
            RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled => ThreadStatus::Idle,
        }
    }
}

/// `GET /threads/{id}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Thread {
    /// The client's id, or one of the server.
    pub thread_id: ThreadId,
    /// That of its active run, if there is one.
    pub status: ThreadStatus,
    /// As a person gave it; without that, the title of the first plan.
    pub title: String,
    /// The settings that its runs have unless a call has others.
    pub config: ThreadConfig,
    /// The client's own; not read by the server.
    pub metadata: Map<String, Value>,
    /// The name of the key that wrote each entry of the `toolPolicy`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tool_policy_by: BTreeMap<String, String>,
    /// In Unix milliseconds.
    pub created_at: Millis,
    /// The last activity.
    pub updated_at: Millis,
    /// The seq of its newest observation; 0: it has none.
    pub last_seq: i64,
    /// Absent if the thread is not a copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkedFrom>,
    /// The items of the current plan.
    #[serde(default)]
    pub items: ItemCounts,
    /// The number of open questions to people.
    #[serde(default)]
    pub open_questions: u64,
    /// The newest run, begun or not; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<LastRun>,
    /// The cost of its runs so far; absent if no call had a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// How many items a plan has, by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ItemCounts {
    /// Of any status.
    pub total: u64,
    /// Completed.
    pub done: u64,
    /// Ended without a result.
    pub failed: u64,
    /// Skipped, removed or ended by a cancel.
    #[serde(default)]
    pub cancelled: u64,
    /// In progress, or asking a person.
    #[serde(default)]
    pub running: u64,
    /// Waiting for other agents.
    #[serde(default)]
    pub waiting: u64,
}

/// A thread's newest run, in short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LastRun {
    /// `GET /runs/{runId}` shows the run whole.
    pub run_id: RunId,
    /// How far that run is.
    pub status: RunStatus,
    /// Absent until it has ended, and if it was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_status: Option<ResultStatus>,
    /// The first 200 characters of the query.
    pub query: String,
}

/// The origin of a thread that is a copy, as in the first observation of its log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ForkedFrom {
    /// The thread that was copied; it may be gone since.
    pub thread_id: ThreadId,
    /// The last observation that was copied.
    pub seq: i64,
}

/// The application's own state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AgentState {
    /// What the tool `set_agent_state`, patches of other tools and clients have written.
    pub data: Value,
    /// Grows by one with each write: the ETag of the state.
    pub version: i64,
}

impl AgentState {
    /// The tool that changes it.
    pub const SET_TOOL: &str = "set_agent_state";
}

/// Limits that the engine enforces; each has one documented fault.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Items beyond it are left out of a planner's plan, and refused in an edit.
    pub items_per_plan: usize,
    /// Further calls of a reply are not made, and the model is told so.
    pub calls_per_reply: usize,
    /// Runs that may wait behind the active one; further ones are refused with `queue_full`.
    pub queued_runs: usize,
    /// The application state as JSON, in bytes; a larger one is refused with `state_too_large`.
    pub state_bytes: usize,
    /// The largest output of one call.
    pub tool_output_bytes: usize,
    /// How long a model call without a reply is retried, from its first failure on, in milliseconds.
    pub retry_ms: Millis,
    /// The same for a provider that cannot be reached at all.
    pub connect_retry_ms: Millis,
    /// How soon an agent is asked for a task's state; the delay doubles, up to the maximum below, while nothing
    /// changes.
    pub ask_peer_ms: Millis,
    /// The longest delay between two such requests, in milliseconds.
    pub ask_peer_most_ms: Millis,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            items_per_plan: 1000,
            calls_per_reply: 32,
            queued_runs: 32,
            state_bytes: 1 << 20,
            tool_output_bytes: 1 << 20,
            retry_ms: 120_000,
            connect_retry_ms: 30_000,
            ask_peer_ms: 5_000,
            ask_peer_most_ms: 300_000,
        }
    }
}
