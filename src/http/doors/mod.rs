//! Doors: the wire formats that clients of other vendors speak, one folder for each. A door is a thin projection: it
//! turns requests into calls of the service, and observations and tokens into events of its wire format. It keeps no
//! state and no copy of a conversation. No door names another door, and only a few files outside of this folder name
//! one.
//!
//! Shared by all doors: the request ([`DoorRequest`]); the stream of a run ([`run_stream`]) and its decoded frames
//! ([`frames`]); the conversation of a thread ([`conversation`]); the events of an answer's text and of a model's
//! thoughts ([`text_events`]); what a run does, as lines of text ([`progress`]); questions as text ([`question`]), and
//! how a text answers a question ([`text_reply`]); the results of a client's own functions, where they are sent as text
//! ([`function_result`]); how deep agents call one another ([`nesting`]); response headers ([`answer_headers`]); and the
//! writing of server-sent events ([`sse`]).

mod a2a;
mod agui;
mod ai_sdk;
mod answer_headers;
mod conversation;
mod frames;
mod function_result;
mod mcp;
mod nesting;
mod newest_messages;
mod openai;
mod progress;
mod question;
#[cfg(test)]
mod recorded;
mod run_stream;
mod shown_conversation;
mod shown_item;
mod sse;
mod text_events;
mod text_reply;

use axum::http::HeaderMap;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use uuid::Uuid;

use super::app_state::AppState;
use super::problem::{self, ProblemContext};
use super::reply_preferences::ReplyPreferences;
use crate::domain::caller::{Caller, Scope};
use crate::domain::fault::Fault;
use crate::domain::hitl::SuspensionKind;
use crate::domain::request_trace::RequestTrace;

pub(super) use answer_headers::EXPOSED;

/// The routes of all doors.
pub(super) fn routes() -> OpenApiRouter<AppState> {
    a2a::routes().merge(agui::routes()).merge(ai_sdk::routes()).merge(mcp::routes()).merge(openai::routes())
}

/// The wire format in which a response is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    A2a,
    AgUi,
    AiSdk,
    Mcp,
    OpenAi,
}

/// A request of a caller to a door.
struct DoorRequest {
    app: AppState,
    caller: Caller,
    preferences: ReplyPreferences,
}

impl Door {
    /// The door that serves this path. The path is relative to the server's base path.
    pub(super) fn at(path: &str) -> Option<Self> {
        let is_at = |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        // Reports of other agents about delegated tasks are requests to this server's own API.
        if is_at("/a2a") && !path.starts_with("/a2a/callbacks/") {
            Some(Door::A2a)
        } else if is_at("/agui") {
            Some(Door::AgUi)
        } else if is_at("/api/chat") {
            Some(Door::AiSdk)
        } else if path.trim_end_matches('/') == "/mcp" {
            Some(Door::Mcp)
        } else {
            is_at("/v1").then_some(Door::OpenAi)
        }
    }

    /// Writes a fault that no handler of the door has answered in the door's own error format. Keeps the headers of
    /// `bare`.
    pub(super) fn refuse(self, fault: &Fault, context: &ProblemContext<'_>, path: &str, bare: Response) -> Response {
        match self {
            Door::A2a => a2a::refuse(fault, path, bare),
            // These clients show the body of any response that is not a stream.
            Door::AgUi | Door::AiSdk => problem::complete(fault, context, bare),
            Door::Mcp => mcp::refuse(fault, &bare),
            Door::OpenAi => openai::refuse(fault, &bare),
        }
    }

    /// Sets the headers that every response of a door has.
    pub(super) fn set_headers(headers: &mut HeaderMap, trace: &RequestTrace) {
        answer_headers::set_request_id(headers, trace);
    }
}

/// Whether a suspension can have this id. Clients also send other words and ids of other vendors.
fn is_suspension_id(id: &str) -> bool {
    let digits = id.strip_prefix("sus_").unwrap_or_default();
    Uuid::try_parse(digits).is_ok_and(|uuid| uuid.hyphenated().to_string() == digits)
}

/// The scope that a caller needs to answer a question of this kind. Answers that only add information (an input, the
/// result of the client's own tool) need `run`, which the caller that started the run has. Answers that decide what the
/// agent does need `approve`.
fn scope_to_answer(kind: SuspensionKind) -> Scope {
    match kind {
        SuspensionKind::Input | SuspensionKind::ClientTool | SuspensionKind::PeerInput | SuspensionKind::PeerAuth => {
            Scope::Run
        }
        SuspensionKind::Approval
        | SuspensionKind::InDoubt
        | SuspensionKind::Budget
        | SuspensionKind::PlanReview
        | SuspensionKind::Pause => Scope::Approve,
    }
}
