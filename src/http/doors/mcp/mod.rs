//! The route for hosts of MCP: this agent as tools of any of them, at `/mcp`, in the versions from 2025-06-18 to 2026-07-28.
//!
//! Stateless: every request says all there is to know, so any replica answers it, and there are no sessions. A request is one
//! JSON-RPC message ([`envelope`]) of a client that speaks a version ([`client`]); a call of a tool ([`tools`], [`call`]) comes
//! to a run, which is told as it stands ([`told`]). What takes time is answered by a stream of events ([`waiting`]), with its
//! progress ([`progress`]), or, to clients that ask after it themselves, by a task ([`tasks`]). What the run asks a person goes
//! to the host's, where it can ask and its key may approve ([`forms`], [`round`]). An agent that is its own tool comes to an
//! end ([`nesting`]).
//!
//! It is written by hand: what this server needs of the protocol is these few methods, and rmcp's server would bring seven more
//! crates, a reader of bodies without our bounds, and a task and a channel for each request.

mod arguments;
mod call;
mod client;
mod endpoint;
mod envelope;
mod forms;
mod nesting;
mod progress;
mod refusal;
mod round;
mod tasks;
mod told;
mod tools;
mod waiting;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http::app_state::AppState;

pub(super) use refusal::{is_ours, refuse};

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::default().routes(routes!(endpoint::endpoint))
}
