//! The routes for other agents: the protocol of `crate::a2a`, over JSON-RPC at `/a2a` and over HTTP+JSON below it.
//!
//! Both bindings are thin: each makes a method and its parameters of a request ([`rpc`], [`rest`]), hands them to
//! [`perform`](operations::perform), and wraps what comes back. A context is a thread, a task is a run; what a task shows
//! ([`task`]) is derived from what is stored, and nothing is stored for the protocol alone but the message itself, which
//! stands in the metadata of the user's message ([`message`]).
//!
//! What belongs to another tenant is `TaskNotFound`, like what does not exist.

mod caller;
pub(crate) mod card;
mod message;
mod operations;
mod push;
mod refusal;
mod reply;
mod rest;
pub(crate) mod rpc;
mod send;
mod stream;
mod task;

use axum::routing::any;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::a2a::view::QUESTIONS;
use crate::http::app_state::AppState;

pub(crate) use refusal::{is_ours, refuse};

pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::default()
        .routes(routes!(card::card))
        .routes(routes!(rpc::rpc))
        .route("/a2a/", axum::routing::post(rpc::rpc))
        .route("/a2a/{*path}", any(rest::rest))
}
