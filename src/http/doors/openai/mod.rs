//! The routes for OpenAI clients: the API under `/v1` that SDKs, chat front ends and agent frameworks speak. They need
//! only a base URL.
//!
//! A request is a query, or answers to the questions of a run. The response is a projection of the thread's
//! observations and tokens. Unknown members of requests are ignored, because front ends add their own.

mod chat;
mod content;
mod error;
mod matched_thread;
mod models;
mod questions;
mod repeat;
mod responses;
mod run_request;
mod shown;
mod sources;
mod temporary_thread;
mod tools;

use axum::routing::{any, get};
use utoipa_axum::router::OpenApiRouter;

use crate::domain::fault::{Code, Fault};
use crate::http::app_state::AppState;
use crate::http::caller::MayRead;
use crate::http::scopes::routes;
use error::OpenAiError;

pub(super) use error::refuse;

/// Paths that clients look for and this server does not have, and what they are told.
const ABSENT: [(&str, &str); 3] = [
    ("/v1/embeddings", "This server has no embeddings; ask your model provider for them."),
    ("/v1/completions", "This server completes no text; use /v1/chat/completions or /v1/responses."),
    ("/v1/messages", "This server does not speak Anthropic's protocol; use /v1/chat/completions or /v1/responses."),
];

pub(super) fn routes() -> OpenApiRouter<AppState> {
    let absent = |message: &'static str| any(move |_: MayRead| async move { not_found(message) });
    let router = ABSENT
        .into_iter()
        .fold(OpenApiRouter::<AppState>::default(), |router, (path, message)| router.route(path, absent(message)));
    router
        .routes(routes!(models::list))
        // Model ids may contain slashes.
        .route("/v1/models/{*id}", get(models::get))
        .routes(routes!(chat::create))
        .routes(routes!(responses::create))
        .routes(routes!(responses::get))
        .routes(routes!(responses::cancel))
        .routes(routes!(responses::input_items))
        .route("/v1/responses/{response}", axum::routing::delete(responses::delete))
}

fn not_found(message: &str) -> OpenAiError {
    Fault::new(Code::NotFound, message).into()
}
