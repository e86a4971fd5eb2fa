//! The routes for `useChat` of the AI SDK, versions 6 and 7: its UI message stream at `/api/chat`.
//!
//! A chat is a thread, a message of the agent is a run: it has the run's id in every stream of it, so that what goes on after
//! a question goes on in the same message. The client sends its whole conversation each time; the server's own is the truth,
//! and only the last message counts ([`request`]).

mod accept;
mod again;
mod calls;
mod chat;
mod chunk;
mod events;
mod history;
mod message;
mod plan;
mod request;
mod stream;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http::app_state::AppState;

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::default()
        .routes(routes!(chat::send))
        .routes(routes!(history::messages))
        .routes(routes!(chat::resume))
}

/// Whether `useChat` asks at this path, which is one below the server's own base.
pub(super) fn is_ours(path: &str) -> bool {
    path == "/api/chat" || path.starts_with("/api/chat/")
}
