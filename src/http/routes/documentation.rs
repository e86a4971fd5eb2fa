//! `/openapi.json` and `/docs`: the same document for programs and for people, without a network.

use std::sync::OnceLock;

use axum::Json;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::IntoResponse;
use serde_json::{Value, json};

use crate::http::reply_preferences::ReplyPreferences;

/// This document.
#[utoipa::path(get, path = "/openapi.json", operation_id = "getOpenApi",
    tag = "server", responses((status = 200, body = Object)))]
pub(crate) async fn openapi_json(preferences: ReplyPreferences) -> Json<Value> {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    let mut document = DOCUMENT.get_or_init(crate::http::openapi).clone();
    document["servers"] = json!([{ "url": preferences.base }]);
    Json(document)
}

/// This document as a page.
#[utoipa::path(get, path = "/docs", operation_id = "getDocs",
    tag = "server", responses((status = 200, body = String, content_type = "text/html")))]
pub(crate) async fn docs() -> impl IntoResponse {
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                  frame-ancestors 'none'";
    let headers = [(CONTENT_TYPE, "text/html; charset=utf-8"), (CONTENT_SECURITY_POLICY, policy)];
    (headers, include_str!("docs.html"))
}
