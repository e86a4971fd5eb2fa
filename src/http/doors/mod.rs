//! Doors: the wires that clients of other makers speak, one folder for each. A door is a thin projection: it makes calls of
//! the service out of requests, and events of its wire out of observations and tokens. It keeps no state and no copy of a
//! conversation, names no other door, and nothing outside of here names one.
//!
//! What doors share stands beside them: frames of a thread, read ([`told`]), and its conversation ([`conversation`]); what a run says while it says it ([`speech`]) and
//! what it does, as lines of text ([`progress`]); questions as text ([`question`]) and how a text answers one
//! ([`text_reply`]); the headers of their answers ([`answer_headers`]), and events as they are written ([`sse`]).

mod a2a;
mod agui;
mod ai_sdk;
mod answer_headers;
mod conversation;
mod mcp;
mod openai;
mod progress;
mod question;
#[cfg(test)]
mod recorded;
mod shown_item;
mod speech;
mod sse;
mod text_reply;
mod told;

use axum::http::HeaderMap;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;

use super::app_state::AppState;
use super::problem::{self, ProblemContext};
use super::trace::TraceId;
use crate::domain::caller::Scope;
use crate::domain::fault::Fault;
use crate::domain::hitl::SuspensionKind;

pub(super) use answer_headers::EXPOSED;

/// The routes of all doors.
pub(super) fn routes() -> OpenApiRouter<AppState> {
    a2a::routes().merge(agui::routes()).merge(ai_sdk::routes()).merge(mcp::routes()).merge(openai::routes())
}

/// Whose words an answer is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    A2a,
    AgUi,
    AiSdk,
    Mcp,
    OpenAi,
}

/// Whether a path is a door's.
type IsOurs = fn(&str) -> bool;

impl Door {
    /// The door at this path, which is one below the server's own base.
    pub(super) fn at(path: &str) -> Option<Self> {
        let doors: [(IsOurs, Self); 5] = [
            (a2a::is_ours, Door::A2a),
            (agui::is_ours, Door::AgUi),
            (ai_sdk::is_ours, Door::AiSdk),
            (mcp::is_ours, Door::Mcp),
            (openai::is_ours, Door::OpenAi),
        ];
        doors.into_iter().find(|(is_ours, _)| is_ours(path)).map(|(_, door)| door)
    }

    /// A fault that the door's handlers did not answer themselves, in the words of its wire; headers that `bare` has stay.
    pub(super) fn refuse(self, fault: &Fault, context: &ProblemContext<'_>, path: &str, bare: Response) -> Response {
        match self {
            Door::A2a => a2a::refuse(fault, path, bare),
            // Their clients show the body of whatever is no stream.
            Door::AgUi | Door::AiSdk => problem::complete(fault, context, bare),
            Door::Mcp => mcp::refuse(fault, &bare),
            Door::OpenAi => openai::refuse(fault, &bare),
        }
    }

    /// What every answer of a door says of itself.
    pub(super) fn mark(headers: &mut HeaderMap, trace: &TraceId) {
        answer_headers::mark(headers, trace);
    }
}

/// The scope that a client needs to answer a question of this kind. Answers that only add information (an input, the result of the
/// client's own tool) need `run`, which whoever asked for the run has. Answers that decide what the agent does need `approve`.
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
