//! `/`: the page for browsers; for others the name of the service, and links to its documents.

use axum::Json;
use axum::extract::{OriginalUri, State};
use axum::http::HeaderMap;
use axum::http::header::VARY;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Serialize;

use crate::http::app_state::AppState;
use crate::http::console;
use crate::http::problem::HttpResult;
use crate::http::reply_preferences::ReplyPreferences;

/// The name of this server, and links to its parts.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct Index {
    name: &'static str,
    version: &'static str,
    description: &'static str,
    docs: String,
    openapi: String,
    models: String,
    threads: String,
    /// A command line that sends the agent a query.
    r#try: String,
}

/// The name of this server, and links to its parts; the page, if `text/html` is accepted.
#[utoipa::path(get, path = "/", operation_id = "getIndex", tag = "server", responses((status = 200, body = Index)))]
pub(crate) async fn index(
    State(_): State<AppState>,
    OriginalUri(uri): OriginalUri,
    preferences: ReplyPreferences,
    headers: HeaderMap,
) -> HttpResult<Response> {
    if console::wants_page(&headers) {
        // The page refers to its files relative to its own path.
        return if uri.path().ends_with('/') {
            console::page(&headers).await
        } else {
            Ok(Redirect::permanent(&format!("{}/", uri.path())).into_response())
        };
    }
    Ok(([(VARY, "accept")], Json(links(&preferences.base))).into_response())
}

fn links(base: &str) -> Index {
    let link = |path: &str| format!("{base}{path}");
    Index {
        name: env!("CARGO_PKG_NAME"),
        version: env!("CARGO_PKG_VERSION"),
        description: env!("CARGO_PKG_DESCRIPTION"),
        docs: link("/docs"),
        openapi: link("/openapi.json"),
        models: link("/models"),
        threads: link("/threads"),
        r#try: format!(
            "curl {} -H 'content-type: application/json' -H 'prefer: wait=60' -d '{{\"query\": \"…\"}}'",
            link("/threads/hello/process")
        ),
    }
}
