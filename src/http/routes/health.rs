//! Is it alive, is it ready, what is it, and how much does it do: open to whoever watches.

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use serde_json::{Value, json};

use crate::domain::fault::{Code, Fault};
use crate::http::front::Front;
use crate::http::metrics;
use crate::http::problem::Answer;

/// The process is alive; nothing else is looked at.
#[utoipa::path(get, path = "/healthz", tag = "server", responses((status = 200, body = Object)))]
pub(crate) async fn healthz() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// Requests can be served: the store takes writes, and the server is not stopping. Models are not asked.
#[utoipa::path(get, path = "/readyz", tag = "server", responses((status = 200, body = Object)))]
pub(crate) async fn readyz(State(front): State<Front>) -> Answer<Json<Value>> {
    if front.stopping.is_cancelled() {
        let fault = Fault::new(Code::Draining, "The server is stopping.");
        return Err(fault.with("failing", json!(["the server is stopping"])).into());
    }
    match front.runtime.ready().await {
        Ok(()) => Ok(Json(json!({ "status": "ready" }))),
        Err(failing) => {
            let fault = Fault::new(Code::StoreUnavailable, failing.join("; "));
            Err(fault.with("failing", json!(failing)).into())
        }
    }
}

/// Numbers for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "server", responses((status = 200, body = String)))]
pub(crate) async fn metrics(State(front): State<Front>) -> impl IntoResponse {
    let text = metrics::render(front.runtime.active_threads(), &front.runtime.provider_figures());
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}

/// Name and version.
#[utoipa::path(get, path = "/version", tag = "server", responses((status = 200, body = Object)))]
pub(crate) async fn version() -> Json<Value> {
    Json(json!({ "name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION") }))
}
