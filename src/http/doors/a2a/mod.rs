//! The routes for other agents: the protocol of `crate::a2a`, over JSON-RPC at `/a2a` and over HTTP+JSON below it.
//!
//! Both bindings are thin: each extracts a method and its parameters from a request ([`rpc`], [`rest`]), passes them to
//! [`perform`](operations::perform), and wraps the result. A context is a thread, and a task is a run. A task
//! ([`task`]) is derived from what is stored. The only thing stored for the protocol alone is the message itself, in
//! the metadata of the user's message ([`message`]).
//!
//! What belongs to another tenant is answered with `TaskNotFound`, like what does not exist.

mod caller;
pub(crate) mod card;
mod error;
mod message;
mod operations;
mod push;
mod reply;
mod rest;
pub(crate) mod rpc;
mod send;
mod stream;
mod task;

use axum::routing::{any, get};
use utoipa_axum::router::OpenApiRouter;

use crate::a2a::view::QUESTIONS;
use crate::http::app_state::AppState;
use crate::http::scopes::routes;

pub(crate) use error::refuse;

pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::default()
        .routes(routes!(card::card))
        .routes(routes!(rpc::rpc))
        .route("/.well-known/agent.json", get(card::old_card))
        .route("/a2a/", axum::routing::post(rpc::rpc))
        .route("/a2a/{*path}", any(rest::rest))
}
