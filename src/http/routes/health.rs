//! Liveness, readiness and version, readable without a key, and metrics for the operator.

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use serde::Serialize;
use serde_json::json;

use crate::domain::fault::{Code, Fault};
use crate::http::app_state::AppState;
use crate::http::caller::Watcher;
use crate::http::metrics;
use crate::http::problem::HttpResult;
use crate::service::readiness;

/// The process is alive.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct Healthy {
    /// `ok`.
    status: &'static str,
}

/// The server can serve requests.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct Ready {
    /// `ready`.
    status: &'static str,
    durability: Durability,
}

/// How durable an acknowledged request is.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct Durability {
    /// `full` or `degraded`.
    status: &'static str,
    /// Why it is degraded.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

impl Durability {
    fn of(weakness: Option<String>) -> Self {
        let status = if weakness.is_none() { "full" } else { "degraded" };
        Self { status, detail: weakness }
    }
}

/// The name and the version of this server.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct Version {
    name: &'static str,
    version: &'static str,
}

/// The process is alive; nothing else is checked.
#[utoipa::path(get, path = "/healthz", operation_id = "getHealth",
    tag = "server", responses((status = 200, body = Healthy)))]
pub(crate) async fn healthz() -> Json<Healthy> {
    Json(Healthy { status: "ok" })
}

/// Requests can be served: the store accepts writes, and the server is not stopping. Models are not checked.
///
/// The check writes as much to the store as a commit does; requests within a second get the same response. `durability`
/// is `full`, or `degraded` if the database may lose an acknowledged request when its machine fails.
#[utoipa::path(get, path = "/readyz", operation_id = "getReadiness",
    tag = "server", responses((status = 200, body = Ready)))]
pub(crate) async fn readyz(State(app): State<AppState>) -> HttpResult<Json<Ready>> {
    if app.leaving.is_cancelled() {
        let fault = Fault::new(Code::Draining, "The server is stopping.");
        return Err(fault.with("failing", json!(["the server is stopping"])).into());
    }
    match readiness::check(&app.service).await {
        Ok(()) => Ok(Json(Ready { status: "ready", durability: Durability::of(readiness::weakness(&app.service)) })),
        Err(failing) => {
            let fault = Fault::new(Code::StoreUnavailable, failing.join("; "));
            Err(fault.with("failing", json!(failing)).into())
        }
    }
}

/// Metrics of the whole server for Prometheus; needs the scope `operator`.
///
/// With `metrics.listen` they are also served on an address of their own, without a key.
#[utoipa::path(get, path = "/metrics", operation_id = "getMetrics",
    tag = "server", responses((status = 200, body = String)))]
pub(crate) async fn metrics(_: Watcher, State(app): State<AppState>) -> impl IntoResponse {
    scrape(State(app)).await
}

/// The same, on the address of `metrics.listen` and without a key.
pub(crate) async fn scrape(State(app): State<AppState>) -> impl IntoResponse {
    let text = metrics::render(&metrics::values(&app).await);
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}

/// The name and the version of this server.
#[utoipa::path(get, path = "/version", operation_id = "getVersion",
    tag = "server", responses((status = 200, body = Version)))]
pub(crate) async fn version() -> Json<Version> {
    Json(Version { name: env!("CARGO_PKG_NAME"), version: env!("CARGO_PKG_VERSION") })
}
