//! Runs: starting, changing and stopping them, reading them, and waiting for them.

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
use crate::domain::lookup::{LookupKey, RunLookups};
use crate::domain::message::HistoryMessage;
use crate::domain::request_trace::RequestTrace;
use crate::domain::run::{OnBusy, RunResource, RunStatus};
use crate::domain::settings::CallOptions;
use crate::store::Fire;

pub use answer::{act_on_item, pause, reply, resume, resume_with_lookups};
pub use cancel::{cancel, cancel_thread};
pub use process::{process, process_subscribed};
pub use read::{first_messages, get, get_with_metadata, list, of_thread, unfinished, wait, wait_for};
pub use rewind::ContinueAt;

pub(crate) use read::{legible_run, resource, stored};

/// The body of `process`, plus what headers say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessAsk {
    /// What the user asks.
    pub query: String,
    /// The metadata of the user's message.
    pub metadata: Option<Map<String, Value>>,
    /// The caller's own id of its user: tools get it.
    pub user_id: Option<String>,
    /// The caller's own id of a session; it is stored with the run.
    pub session_id: Option<String>,
    /// The client's name for the trace: a W3C trace id, or any text.
    pub trace_id: Option<String>,
    /// The trace context of the request; absent = a new trace.
    pub trace: Option<RequestTrace>,
    /// What happens if a run of the thread is active.
    pub on_busy: OnBusy,
    /// Messages from elsewhere that precede the query, oldest first; only for a thread that begins with this query.
    pub history: Vec<HistoryMessage>,
    /// The position in the thread's conversation at which the query continues it; absent: its end.
    pub continue_at: Option<ContinueAt>,
    /// Settings of this run, which win over those of the thread.
    pub options: CallOptions,
    /// A push receiver of the run's changes.
    pub push: Option<PushReceiver>,
    /// The names of those who, like the caller, may not approve what the run asks for (four eyes). The run of a schedule
    /// counts against the spending caps of the first.
    pub shaped_by: Vec<String>,
    /// The time of a schedule that the run is for.
    pub fire: Option<Fire>,
    /// The keys under which the run is found ([`lookups`](crate::service::lookups)).
    pub lookups: Vec<LookupKey>,
}

/// A message that comes with the answer to a suspension and joins the conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplyMessage {
    /// The text of the message.
    pub content: String,
    /// What the message has besides its text.
    pub metadata: Option<Map<String, Value>>,
    /// The message is not the answer but says something more, which changes the course of the run.
    pub steers: bool,
    /// A push receiver of the run's changes from this message on.
    pub push: Option<PushRegistration>,
    /// Further keys under which the run is found.
    pub lookups: Option<RunLookups>,
}

/// A push receiver for the changes of a run that there is already.
#[derive(Clone, Debug, PartialEq)]
pub struct PushRegistration {
    /// The run whose changes are sent.
    pub(crate) run: RunId,
    pub(crate) receiver: PushReceiver,
}

/// Who gets the changes of a run. Only clients of the A2A door name one.
#[derive(Clone, Debug, PartialEq)]
pub struct PushReceiver {
    /// Where they are sent, and how the receiver knows the sender.
    pub(crate) config: PushConfig,
    /// The version of the protocol that its client speaks.
    pub(crate) version: Version,
}

/// The 202 of everything that starts or moves a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// The run that was started or moved.
    pub run_id: RunId,
    /// The thread of that run.
    pub thread_id: ThreadId,
    /// How far the run was when the request was committed, or when a wait for it ended.
    pub status: RunStatus,
    /// Where the thread's events are.
    pub events_url: String,
    /// Where the run is.
    pub run_url: String,
    /// The open questions of the run, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<OpenQuestion>)]
    pub suspensions: Vec<Value>,
}

/// An open question: the content of its `AGENT_SUSPENDED`, and where people answer it.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenQuestion {
    /// As it was announced.
    #[serde(flatten)]
    pub asked: AskedQuestion,
    /// Its place in the page for people; absent where no address is known under which they reach this server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// What a cancel did, as its request answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CancelReceipt {
    /// The runs that end or have ended by it.
    pub run_ids: Vec<RunId>,
    /// It was over before: nothing had to be done.
    #[serde(skip)]
    pub already: bool,
}

/// What a person does with one item of the active run.
#[derive(Clone, Debug, PartialEq)]
pub enum ItemAction {
    /// The item is executed again.
    Retry(ItemId),
    /// The item ends as it is now.
    Skip(ItemId),
}

/// The event for which a caller waits. The end of the run ends every wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// The run's status is `suspended`: nothing of it runs.
    Suspension,
    /// The same, or a running call has an open question, without whose answer it cannot end.
    CallQuestion,
    /// The same, or any question is open while other work runs.
    Question,
}

/// The result of waiting for a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Waited {
    /// The run when the wait ended.
    pub run: RunResource,
    /// The open questions.
    pub suspensions: Vec<Value>,
}
