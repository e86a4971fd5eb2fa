//! The routes for clients of OpenAI: its wire at `/v1`, spoken by SDKs, chat front ends and agent frameworks, which need a
//! base URL and nothing else.
//!
//! A request is a query, or an answer to what a run asks; what its client is told is a projection of the thread's
//! observations and tokens. Unknown members of requests are ignored: front ends add their own.

mod asking;
mod chat;
mod content;
mod conversation;
mod made;
mod models;
mod questions;
mod refusal;
mod repeat;
mod responses;
mod shown;
mod sources;
mod tools;

use axum::routing::get;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http::app_state::AppState;

pub(super) use refusal::{is_ours, refuse};

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::default()
        .routes(routes!(models::list))
        // Ids may hold slashes.
        .route("/v1/models/{*id}", get(models::get))
        .routes(routes!(chat::create))
        .routes(routes!(responses::create))
        .routes(routes!(responses::get))
        .routes(routes!(responses::cancel))
        .routes(routes!(responses::input_items))
        .route("/v1/responses/{response}", axum::routing::delete(responses::delete))
}
