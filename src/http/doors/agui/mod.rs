//! The routes for AG-UI, the protocol of agent front ends: client versions 0.x and 1.0, at `/agui`.
//!
//! A run of the client is one stream. A run of this server that asks something and goes on is several runs of the
//! client. The server's conversation is authoritative: of what a client sends, its answers and its newest message are
//! used ([`request`]), and the ids of the messages before it say where in the thread it continues ([`position`]).

mod accept;
mod conversation;
mod cursor;
mod endpoint;
mod events;
mod interrupt;
mod messages;
mod numbered;
mod position;
mod repeated_answers;
mod request;
mod state;
mod stream;
mod subagents;
mod text_events;
mod usage;

use utoipa_axum::router::OpenApiRouter;

use crate::http::app_state::AppState;
use crate::http::scopes::routes;

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::default()
        .routes(routes!(endpoint::run))
        .routes(routes!(endpoint::connect))
        .routes(routes!(endpoint::capabilities))
}
