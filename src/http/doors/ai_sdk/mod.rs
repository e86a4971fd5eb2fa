//! The routes for `useChat` of the AI SDK, versions 6 and 7: its UI message stream at `/api/chat`.
//!
//! A chat is a thread, and a message of the agent is a run. The message has the run's id in every stream, so what
//! follows a question continues the same message. The client sends its whole conversation each time. The server's
//! conversation is authoritative, and only the last message is used ([`request`]).

mod accept;
mod calls;
mod chat;
mod chunk;
mod events;
mod history;
mod message;
mod plan;
mod request;
mod rewind;
mod stream;

use utoipa_axum::router::OpenApiRouter;

use crate::http::app_state::AppState;
use crate::http::scopes::routes;

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::default()
        .routes(routes!(chat::send))
        .routes(routes!(history::messages))
        .routes(routes!(chat::resume))
}
