//! Doors: the wires that clients of other makers speak, one folder for each. A door is a thin projection: it makes calls of
//! the service out of requests, and events of its wire out of observations and tokens. It keeps no state and no copy of a
//! conversation, names no other door, and nothing outside of here names one.
//!
//! What doors share stands beside them: the headers of their answers ([`answer_headers`]), events as they are written
//! ([`sse`]), and how a text answers a question ([`text_reply`]).

mod a2a;
mod answer_headers;
mod mcp;
mod sse;
mod text_reply;

use axum::http::HeaderMap;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;

use super::app_state::AppState;
use super::trace::TraceId;
use crate::domain::fault::Fault;

pub(super) use answer_headers::EXPOSED;

/// The routes of all doors.
pub(super) fn routes() -> OpenApiRouter<AppState> {
    a2a::routes().merge(mcp::routes())
}

/// Whose words an answer is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    A2a,
    Mcp,
}

impl Door {
    /// The door at this path, which is one below the server's own base.
    pub(super) fn at(path: &str) -> Option<Self> {
        if a2a::is_ours(path) { Some(Door::A2a) } else { mcp::is_ours(path).then_some(Door::Mcp) }
    }

    /// A fault that the door's handlers did not answer themselves, in the words of its wire; headers that `bare` has stay.
    pub(super) fn refuse(self, fault: &Fault, path: &str, bare: Response) -> Response {
        match self {
            Door::A2a => a2a::refuse(fault, path, bare),
            Door::Mcp => mcp::refuse(fault, &bare),
        }
    }

    /// What every answer of a door says of itself.
    pub(super) fn mark(headers: &mut HeaderMap, trace: &TraceId) {
        answer_headers::mark(headers, trace);
    }
}
