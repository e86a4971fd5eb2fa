//! The one error that callers see: a code from a closed list, a sentence that says what to do, and pointers.

use serde::{Deserialize, Serialize};
use serde_json::Value;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $status:literal, $title:literal, $retry:literal;)+) => {
        /// Every code that this server answers with; documented in `docs/ERRORS.md`, which a test compares.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Code { $(
            #[doc = concat!("`", $text, "`, HTTP ", $status, ": “", $title, "”.")]
            $(#[$doc])*
            #[serde(rename = $text)] $name,
        )+ }

        impl Code {
            /// In the order of the definition.
            pub const ALL: &'static [Code] = &[$(Code::$name,)+];

            /// The `code` of the problem document.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$name => $text,)+ }
            }
            /// The HTTP status it travels with.
            pub fn status(self) -> u16 {
                match self { $(Code::$name => $status,)+ }
            }
            /// The `title` of the problem document: the same for every fault of this code.
            pub fn title(self) -> &'static str {
                match self { $(Code::$name => $title,)+ }
            }
            /// Whether the same request may succeed later, unchanged.
            pub fn retryable(self) -> bool {
                match self { $(Code::$name => $retry,)+ }
            }
        }

        crate::domain::words_of!(Code);
    };
}

codes! {
    Malformed = "malformed", 400, "The request cannot be read", false;
    Unauthorized = "unauthorized", 401, "A valid key is needed", false;
    Forbidden = "forbidden", 403, "The key may not do this", false;
    NotAnApprover = "not_an_approver", 403, "This question is for others to answer", false;
    FourEyes = "four_eyes", 403, "Whoever asked may not approve", false;
    OriginRefused = "origin_refused", 403, "This origin may not call", false;
    HostRefused = "host_refused", 403, "This host name is not served", false;
    NotFound = "not_found", 404, "There is no such thing", false;
    MethodNotAllowed = "method_not_allowed", 405, "This method does not apply here", false;
    RequestTimeout = "request_timeout", 408, "The request did not arrive in time", true;
    ThreadBusy = "thread_busy", 409, "A run is active on this thread", true;
    ScheduleExists = "schedule_exists", 409, "A schedule with this id exists", false;
    ThreadExists = "thread_exists", 409, "The thread exists with other content", false;
    KeyExists = "key_exists", 409, "There is a key of this name", false;
    KeyOverlap = "key_overlap", 409, "The key before this one still counts", false;
    ServerExists = "server_exists", 409, "There is an MCP server of this name", false;
    ThreadQuarantined = "thread_quarantined", 409, "The thread is quarantined", false;
    NotQuarantined = "not_quarantined", 409, "The thread is not quarantined", false;
    AlreadyResolved = "already_resolved", 409, "The suspension is resolved already", false;
    ApprovalMismatch = "approval_mismatch", 409, "The approval is for something else", false;
    RunCancelled = "run_cancelled", 409, "The run was cancelled", false;
    RunFinished = "run_finished", 409, "The run is over", false;
    FinishedItem = "finished_item", 409, "A finished item cannot be edited", false;
    ItemInProgress = "item_in_progress", 409, "An item in progress cannot be edited", false;
    PlanNotEditable = "plan_not_editable", 409, "The plan is being made right now", true;
    /// In the library only: over HTTP a suspended run is no error.
    Suspended = "suspended", 409, "The run waits for a person", false;
    NothingToPause = "nothing_to_pause", 409, "No run is active", false;
    RequestInProgress = "request_in_progress", 409, "The same request is being answered", true;
    OnHold = "on_hold", 409, "The thread must be kept", false;
    Expired = "expired", 410, "The suspension has expired", false;
    HistoryCompacted = "history_compacted", 410, "That part of the history is gone", false;
    PreconditionFailed = "precondition_failed", 412, "It has changed since it was read", false;
    BodyTooLarge = "body_too_large", 413, "The body is too large", false;
    UnsupportedMediaType = "unsupported_media_type", 415, "This content type is not understood", false;
    Invalid = "invalid", 422, "The request is understood but not valid", false;
    IdempotencyMismatch = "idempotency_mismatch", 422, "The Idempotency-Key was used with another body", false;
    ImportInvalid = "import_invalid", 422, "The file is not a whole export", false;
    PlanInvalid = "plan_invalid", 422, "The plan is not valid", false;
    TooManyItems = "too_many_items", 422, "The plan has too many items", false;
    StateTooLarge = "state_too_large", 422, "The state is too large", false;
    TooManyDocuments = "too_many_documents", 422, "This tenant may have no more of these", false;
    PreconditionRequired = "precondition_required", 428, "If-Match is needed", false;
    QueueFull = "queue_full", 429, "Too many runs are queued", true;
    TooManyRequests = "too_many_requests", 429, "Too many requests", true;
    SpendCapReached = "spend_cap_reached", 429, "A cap on spending is reached", true;
    HeadersTooLarge = "headers_too_large", 431, "The headers are too large", false;
    Internal = "internal", 500, "Something broke here", true;
    TooManyConnections = "too_many_connections", 503, "Too many connections", true;
    StoreUnavailable = "store_unavailable", 503, "The store does not answer", true;
    ProviderSaturated = "provider_saturated", 503, "The model's queue is full", true;
    IssuerUnavailable = "issuer_unavailable", 503, "The issuer of the token does not answer", true;
    SecretUnreadable = "secret_unreadable", 503, "A sealed secret cannot be opened", true;
    Draining = "draining", 503, "The server is stopping", true;
    /// The run's own failures, seen in `AgentFinalResponse.metadata.error` and `ERROR` observations.
    PlanUnreadable = "plan_unreadable", 500, "The model's plan could not be read", false;
    TaskRefused = "task_refused", 500, "The task was refused", false;
    ModelFailed = "model_failed", 500, "The model did not answer", true;
    ModelRefused = "model_refused", 500, "The model's provider refused the call", false;
    StepFailed = "step_failed", 500, "The step failed", false;
    SynthesisFailed = "synthesis_failed", 500, "The answer could not be written", true;
    Quarantined = "quarantined", 500, "The thread kept crashing", false;
    UnreadableState = "unreadable_state", 500, "What is stored of the thread cannot be read", false;
    PromptTooLong = "prompt_too_long", 500, "The prompt is longer than the model takes", false;
    ReplyTooLarge = "reply_too_large", 500, "The model's reply is larger than may be", false;
    BudgetExceeded = "budget_exceeded", 500, "The run's budget is spent", false;
    PlanRejected = "plan_rejected", 500, "The plan was rejected", false;
    SuspensionTimedOut = "suspension_timed_out", 500, "Nobody answered in time", false;
}

/// An error as the caller sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{}: {detail}", code.as_str())]
pub struct Fault {
    /// Decides the HTTP status, the title, and whether the request may be sent again.
    pub code: Code,
    /// A sentence that says what to do.
    pub detail: String,
    /// What in the request is wrong, by JSON Pointer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Pointed>,
    /// More members of the problem document (who resolved it, what is allowed).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Box<serde_json::Map<String, Value>>>,
    /// When the same request may succeed, in milliseconds from now: the header `Retry-After`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<i64>,
}

/// One mistake in a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Pointed {
    /// A JSON Pointer into the body, or the name of a parameter.
    pub pointer: String,
    /// What is wrong there, as a sentence.
    pub detail: String,
}

/// A sentence and its pointers in one line: `sentence pointer: detail; pointer: detail`. Details that the sentence
/// contains already are not repeated.
pub fn in_full(detail: &str, errors: &[Pointed]) -> String {
    let unsaid = errors.iter().filter(|of| !detail.contains(&of.detail));
    let errors: Vec<String> = unsaid.map(|of| format!("{}: {}", of.pointer, of.detail)).collect();
    if errors.is_empty() { detail.to_owned() } else { format!("{detail} {}", errors.join("; ")) }
}

impl Fault {
    /// A fault without pointers, more members or a time.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), errors: Vec::new(), extra: None, retry_after_ms: None }
    }

    /// Adds a mistake at this place of the request.
    pub fn at(mut self, pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        self.errors.push(Pointed { pointer: pointer.into(), detail: detail.into() });
        self
    }

    /// Moves its pointers below this place.
    pub fn below(mut self, place: &str) -> Self {
        for pointed in &mut self.errors {
            pointed.pointer.insert_str(0, place);
        }
        self
    }

    /// Adds a member to the problem document; a member of the same name is replaced.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.extra.get_or_insert_default().insert(key.to_owned(), value.into());
        self
    }

    /// The sentence and its pointers in one line, for output that is not JSON.
    pub fn in_full(&self) -> String {
        in_full(&self.detail, &self.errors)
    }

    /// Says after how many milliseconds the same request may succeed.
    pub fn retry_after(self, ms: i64) -> Self {
        Self { retry_after_ms: Some(ms), ..self }
    }

    /// A fault about the member of a request at this JSON Pointer; `how` completes the sentence: "has at most 3 items".
    pub fn invalid(pointer: &str, how: impl Into<String>) -> Self {
        let how = how.into();
        Self::new(Code::Invalid, format!("`{pointer}` {how}.")).at(pointer, how)
    }

    /// The thread takes no requests until it is released.
    pub fn quarantined() -> Self {
        let detail = "The thread is quarantined, because it crashed the server or what is stored of it cannot be read; POST \
                      /threads/{id}/release lets it go on.";
        Self::new(Code::ThreadQuarantined, detail)
    }

    /// There is no `what` with the id of the request, or it belongs to another tenant.
    pub fn not_found(what: &str) -> Self {
        Self::new(Code::NotFound, format!("There is no such {what}; check the id."))
    }
}
