//! The web pages of other origins that may call: those on the list, by default none.

use std::time::Duration;

use axum::http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH, LOCATION, RETRY_AFTER, USER_AGENT,
};
use axum::http::{HeaderName, HeaderValue, Method};
use tower_http::cors::CorsLayer;

use super::doors;

/// The headers that OpenAI's libraries send with each request, the first two if their user names them.
const OPENAI_HEADERS: [HeaderName; 11] = [
    HeaderName::from_static("openai-organization"),
    HeaderName::from_static("openai-project"),
    HeaderName::from_static("x-stainless-arch"),
    HeaderName::from_static("x-stainless-helper-method"),
    HeaderName::from_static("x-stainless-lang"),
    HeaderName::from_static("x-stainless-os"),
    HeaderName::from_static("x-stainless-package-version"),
    HeaderName::from_static("x-stainless-retry-count"),
    HeaderName::from_static("x-stainless-runtime"),
    HeaderName::from_static("x-stainless-runtime-version"),
    HeaderName::from_static("x-stainless-timeout"),
];

/// `None` if no origin is allowed; then no CORS headers are sent. `thread_headers` are the headers that name a thread.
pub(crate) fn layer(origins: &[String], thread_headers: &[String]) -> Option<CorsLayer> {
    if origins.is_empty() {
        return None;
    }
    let origin =
        |text: &String| HeaderValue::from_str(text.trim_end_matches('/')).expect("origins are checked at the start");
    let origins: Vec<HeaderValue> = origins.iter().map(origin).collect();
    let ours = HeaderName::from_static;
    let thread_headers = thread_headers.iter().filter_map(|name| HeaderName::try_from(name.as_str()).ok());
    let more = OPENAI_HEADERS.into_iter().chain([ours("x-pes-thread"), ours("x-pes-task")]).chain(thread_headers);
    Some(
        CorsLayer::new()
            .allow_origin(origins)
            .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
            .allow_headers(
                more.chain([
                    ACCEPT,
                    AUTHORIZATION,
                    CONTENT_TYPE,
                    IF_MATCH,
                    IF_NONE_MATCH,
                    // OpenAI's libraries set it, which only some browsers forbid.
                    USER_AGENT,
                    ours("a2a-extensions"),
                    ours("a2a-version"),
                    ours("idempotency-key"),
                    ours("last-event-id"),
                    ours("mcp-method"),
                    ours("mcp-name"),
                    ours("mcp-protocol-version"),
                    ours("prefer"),
                    ours("traceparent"),
                    ours("tracestate"),
                ])
                .collect::<Vec<_>>(),
            )
            .expose_headers(exposed())
            .max_age(Duration::from_secs(3600)),
    )
}

/// The response headers that the scripts of such a page may read.
fn exposed() -> Vec<HeaderName> {
    let more = [
        "a2a-extensions",
        "idempotency-replayed",
        "preference-applied",
        "ratelimit",
        "ratelimit-policy",
        "x-should-retry",
    ];
    let ours = more.map(HeaderName::from_static);
    [ETAG, LOCATION, RETRY_AFTER].into_iter().chain(ours).chain(doors::EXPOSED).collect()
}
