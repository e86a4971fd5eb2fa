//! `/`: what this is, and where to go from here.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::http::asked::Asked;
use crate::http::front::Front;

/// What this server is, with links.
#[utoipa::path(get, path = "/", tag = "server", responses((status = 200, body = Object)))]
pub(crate) async fn index(State(_): State<Front>, asked: Asked) -> Json<Value> {
    let link = |path: &str| format!("{}{path}", asked.base);
    Json(json!({
        "name": env!("CARGO_PKG_NAME"),
        "version": env!("CARGO_PKG_VERSION"),
        "description": env!("CARGO_PKG_DESCRIPTION"),
        "docs": link("/docs"),
        "openapi": link("/openapi.json"),
        "models": link("/models"),
        "threads": link("/threads"),
        "try": format!("curl {} -H 'content-type: application/json' -H 'prefer: wait=60' -d '{{\"query\": \"…\"}}'",
            link("/threads/hello/process")),
    }))
}
