//! `/.well-known/oauth-protected-resource`: where clients of MCP get tokens for this server (RFC 9728).

use axum::Json;
use axum::extract::State;
use axum::http::request::Parts;
use serde::Serialize;

use crate::domain::fault::Fault;
use crate::http::app_state::AppState;
use crate::http::params::NoParams;
use crate::http::problem::HttpResult;

/// What a client needs to get a token from an issuer.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct ProtectedResource {
    /// The URL that clients of MCP call, and name to the issuer as the resource.
    resource: String,
    resource_name: &'static str,
    authorization_servers: Vec<String>,
    /// The scopes that this server knows, as the issuers spell them.
    scopes_supported: Vec<String>,
    bearer_methods_supported: [&'static str; 1],
}

/// The issuers of tokens for this server; needs no key. 404: there are none, so keys are needed.
#[utoipa::path(get, path = "/.well-known/oauth-protected-resource", operation_id = "getProtectedResource", tag = "server",
    responses((status = 200, body = ProtectedResource)))]
pub(crate) async fn get(State(app): State<AppState>, _: NoParams, parts: Parts) -> HttpResult<Json<ProtectedResource>> {
    document(&app, &parts)
}

/// The same, under the path that is derived from `/mcp`, where some clients look.
#[utoipa::path(get, path = "/.well-known/oauth-protected-resource/mcp", operation_id = "getProtectedResourceOfMcp",
    tag = "server", responses((status = 200, body = ProtectedResource)))]
pub(crate) async fn get_of_mcp(
    State(app): State<AppState>,
    _: NoParams,
    parts: Parts,
) -> HttpResult<Json<ProtectedResource>> {
    document(&app, &parts)
}

fn document(app: &AppState, parts: &Parts) -> HttpResult<Json<ProtectedResource>> {
    let issuers = &app.config.auth.oidc;
    if issuers.is_empty() {
        return Err(Fault::not_found("issuer of tokens").into());
    }
    let mut authorization_servers: Vec<String> = issuers.values().map(|issuer| issuer.issuer.clone()).collect();
    authorization_servers.dedup();
    let mut scopes_supported: Vec<String> = issuers.values().flat_map(|issuer| issuer.words()).collect();
    scopes_supported.sort();
    scopes_supported.dedup();
    Ok(Json(ProtectedResource {
        resource: format!("{}/mcp", app.base(parts)),
        resource_name: "PES",
        authorization_servers,
        scopes_supported,
        bearer_methods_supported: ["header"],
    }))
}

/// The URL of the document for a client that called `path` without a token. `None` if there is no such document.
pub(crate) fn metadata_url(app: &AppState, path: &str, base: &str) -> Option<String> {
    let is_of_mcp = path == "/mcp" && !app.config.auth.oidc.is_empty();
    is_of_mcp.then(|| format!("{base}/.well-known/oauth-protected-resource"))
}
