//! The route for MCP hosts: this agent as a set of tools at `/mcp`, in the versions from 2025-03-26 to 2026-07-28.
//!
//! Stateless: every request is complete, so any replica can answer it, and there are no sessions. A request is one
//! JSON-RPC message ([`envelope`]) of a client with a version ([`client`]). A tool call ([`tools`], [`call`]) leads to
//! a run, and its result is a report of that run ([`run_report`]). A call that takes time is answered by a stream of
//! events ([`waiting`]) with progress notifications ([`progress`]), or, for clients that poll, by a task ([`tasks`]).
//! The run's questions to people are passed to the host if it can show them and its key may approve ([`forms`],
//! [`round`]). An agent that is its own tool is stopped at a maximum depth ([`nesting`](super::nesting)).
//!
//! It is written by hand: this server needs only these few methods of the protocol, and rmcp's server would bring seven
//! more crates, a body reader without our limits, and a task and a channel for each request.

mod arguments;
mod call;
mod client;
mod endpoint;
mod envelope;
mod error;
mod forms;
mod progress;
mod round;
mod run_report;
mod tasks;
mod tools;
mod waiting;

use utoipa_axum::router::OpenApiRouter;

use crate::http::app_state::AppState;
use crate::http::scopes::routes;

pub(super) use error::refuse;

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::default().routes(routes!(endpoint::endpoint))
}
