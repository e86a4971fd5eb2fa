//! What callers ask of the runtime, and what they are answered with.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::a2a::types::PushConfig;
use crate::a2a::wire::Version;
use crate::domain::Millis;
use crate::domain::hitl::{AskedQuestion, Suspension};
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::message::ConversationMessage;
use crate::domain::observation::{Observation, ObservationType};
use crate::domain::run::{CallerStatus, OnBusy, Run, RunResource, RunStatus};
use crate::domain::settings::{CallOptions, ThreadConfig};
use crate::domain::trace::TraceOrigin;
use crate::store::PageAsk;

/// A request's `Idempotency-Key`, where it was used, and what it was used with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotent {
    pub key: String,
    /// Method and path; keys of different tenants and scopes are strangers.
    pub scope: String,
    /// SHA-256 of the body, hex.
    pub fingerprint: String,
}

/// A fresh answer, or the stored one of an earlier request with the same key and body.
#[derive(Clone, Debug, PartialEq)]
pub enum Answered<T> {
    Fresh(T),
    Replayed { status: u16, body: String, location: Option<String> },
}

/// The body of `process`, plus what headers say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessAsk {
    pub query: String,
    /// What stands in the metadata of the user's message.
    pub metadata: Option<Map<String, Value>>,
    pub user_id: Option<String>,
    pub session_id: Option<String>,
    /// The client's own word for the trace: its id, or any text.
    pub trace_id: Option<String>,
    /// The trace that the request came in, and what its caller said of it; absent = a new one.
    pub trace: Option<(String, TraceOrigin)>,
    pub on_busy: OnBusy,
    pub options: CallOptions,
    /// Who is told of what happens in the run, as it happens.
    pub push: Option<(PushConfig, Version)>,
}

/// A message that is an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SaidAsk {
    pub content: String,
    pub metadata: Option<Map<String, Value>>,
    /// Who is told of what happens in that run from here on.
    pub push: Option<(RunId, PushConfig, Version)>,
}

/// The 202 of everything that starts or moves a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    pub run_id: RunId,
    pub thread_id: ThreadId,
    pub status: RunStatus,
    /// Where the thread's events are.
    pub events_url: String,
    pub run_url: String,
    /// The contents of the `AGENT_SUSPENDED` of every open suspension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<AskedQuestion>)]
    pub suspensions: Vec<Value>,
}

/// The body of `POST /threads`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewThreadAsk {
    /// Absent = the server makes one.
    pub thread_id: Option<ThreadId>,
    pub title: Option<String>,
    pub config: ThreadConfig,
    pub metadata: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CancelReceipt {
    pub run_ids: Vec<RunId>,
    /// It was over before: nothing had to be done.
    #[serde(skip)]
    pub already: bool,
}

/// What a caller waits for, beside the run's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// That the run's status is `suspended`: nothing goes on any more.
    Suspension,
    /// That, or that a running call asks: it comes to no end before it is answered.
    CallQuestion,
    /// That, or that any question is open while something else goes on.
    Question,
}

/// What a waiting caller learns.
#[derive(Clone, Debug, PartialEq)]
pub struct Waited {
    pub run: RunResource,
    /// The questions that are open.
    pub suspensions: Vec<Value>,
}

/// A run as those see it who asked for it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSnapshot {
    pub run: Run,
    /// What it said and was told, in order; empty if nobody wanted to see it.
    pub messages: Vec<ConversationMessage>,
    /// The open questions, oldest first.
    pub open: Vec<Suspension>,
}

/// Which runs to list: the last to change first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunSnapshotAsk {
    pub thread: Option<ThreadId>,
    /// Empty = all.
    pub standings: Vec<CallerStatus>,
    /// Only those that have stood so since then, or a shorter time.
    pub since: Option<Millis>,
    pub with_messages: bool,
    pub page: PageAsk,
}

/// How a person edits the todo list.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanPatch {
    /// RFC 6902 operations on the list.
    JsonPatch(json_patch::Patch),
    /// RFC 7386, where an object `{id: change}` merges by item id and an array replaces the list.
    MergePatch(Value),
}

/// A page of a thread's log.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventsPage {
    pub items: Vec<Observation>,
    /// The `after` of the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    pub last_seq: i64,
    pub min_seq: i64,
}

/// Where a feed begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    Seq(i64),
    /// Live only.
    Latest,
}

impl Default for After {
    fn default() -> Self {
        After::Seq(0)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct FeedAsk {
    pub after: After,
    /// Empty = all.
    pub types: Vec<ObservationType>,
    pub tokens: bool,
    /// The feed ends after this run's `RUN_FINISHED`.
    pub until: Option<RunId>,
    /// It also ends when that run is suspended and nothing of it runs any more.
    pub ends_suspended: bool,
}
