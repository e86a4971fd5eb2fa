//! The routes for AG-UI: front ends of agents, versions 0.x and 1.0 of its clients, at `/agui`.
//!
//! A run of theirs is one stream: a run of this server that asks something and goes on is several of theirs. The server's
//! conversation is the truth; of what a client sends, its answers and its newest message count ([`request`]).

mod accept;
mod again;
mod conversation;
mod cursor;
mod endpoint;
mod events;
mod interrupt;
mod messages;
mod numbered;
mod request;
mod spoken;
mod state;
mod stream;
mod subagents;
mod usage;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http::app_state::AppState;

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::default()
        .routes(routes!(endpoint::run))
        .routes(routes!(endpoint::connect))
        .routes(routes!(endpoint::capabilities))
}

/// Whether AG-UI's clients ask at this path, which is one below the server's own base.
pub(super) fn is_ours(path: &str) -> bool {
    path == "/agui" || path.starts_with("/agui/")
}
