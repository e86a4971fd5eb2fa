//! Runs: what starts, moves and stops one, how one stands, and waiting for it.

mod answer;
mod cancel;
mod process;
mod read;
mod rewind;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::a2a::types::PushConfig;
use crate::a2a::wire::Version;
use crate::domain::hitl::AskedQuestion;
use crate::domain::ids::{ItemId, RunId, ThreadId};
use crate::domain::lookup::LookupKey;
use crate::domain::message::HistoryMessage;
use crate::domain::run::{OnBusy, RunResource, RunStatus};
use crate::domain::settings::CallOptions;
use crate::domain::trace::TraceOrigin;
use crate::store::Fire;

pub use answer::{pause, reply, resume, resume_found, step_in};
pub use cancel::{cancel, cancel_thread};
pub use process::{process, process_subscribed};
pub use read::{get, list, of_thread, wait, wait_for};
pub use rewind::ContinueAt;

pub(crate) use read::{resource, stored};

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
    /// What was said elsewhere before, oldest first; only for a thread that begins with this query.
    pub history: Vec<HistoryMessage>,
    /// Where in the thread's conversation; absent: at its end, whatever that is.
    pub continue_at: Option<ContinueAt>,
    pub options: CallOptions,
    /// The push receivers of the run's changes.
    pub push: Option<(PushConfig, Version)>,
    /// Those, beside the caller, who may not approve what the run asks for.
    pub shaped_by: Vec<String>,
    /// The time of a schedule that the run is for.
    pub fire: Option<Fire>,
    /// What the run is to be found under ([`lookups`](crate::service::lookups)).
    pub lookups: Vec<LookupKey>,
}

/// A message that is an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SaidAsk {
    pub content: String,
    pub metadata: Option<Map<String, Value>>,
    /// The push receivers of the run's changes from here on.
    pub push: Option<(RunId, PushConfig, Version)>,
    /// The run that it answers, and what that is to be found under, too.
    pub found: Option<(RunId, Vec<LookupKey>)>,
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

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CancelReceipt {
    pub run_ids: Vec<RunId>,
    /// It was over before: nothing had to be done.
    #[serde(skip)]
    pub already: bool,
}

/// What a person wants of one item of the active run.
#[derive(Clone, Debug, PartialEq)]
pub enum ItemWish {
    /// That it is done again.
    Retry(ItemId),
    /// That it ends where it is.
    Skip(ItemId),
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
