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

use axum::routing::get;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http::app_state::AppState;

pub(super) use error::refuse;

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::default()
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
