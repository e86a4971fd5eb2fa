//! Checks before authentication: host names and origins on an open server, no credentials in URLs, bounded headers.
//!
//! A server without keys trusts every program that can reach its loopback address. A web page can make a browser send
//! such requests: directly, or through a host name that resolves to 127.0.0.1. Both are refused. The first kind is
//! detected by `Origin`, or by `Sec-Fetch-Site` where a browser sends no `Origin`, as for an image or a link; the
//! second by `Host`.

use axum::extract::{Request, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::app_state::AppState;
use super::problem::Problem;
use crate::domain::fault::{Code, Fault};

pub(crate) async fn guard(State(app): State<AppState>, request: Request, next: Next) -> Response {
    // If the store does not answer, the checks stay on. The probes never wait for it: that of readiness has a query and a
    // time limit of its own. So they have no checks of host and origin: they tell everybody whether the server is ready,
    // and what of it fails.
    let is_probe = matches!(app.links.below_base(request.uri().path()), "/healthz" | "/readyz");
    let is_open = !is_probe && app.keys.is_open().await.unwrap_or(true);
    match check(&app, &request, is_open) {
        Ok(()) => next.run(request).await,
        Err(fault) => Problem(fault).into_response(),
    }
}

fn check(app: &AppState, request: &Request, is_open: bool) -> Result<(), Fault> {
    check_head_size(request, app.config.limits.header_bytes)?;
    check_no_credentials(request.uri())?;
    check_one_host(request.headers())?;
    if is_open {
        check_host(app, request.headers())?;
        // Links to pages that only show something are allowed.
        check_origin(app, request.headers(), matches!(app.links.below_base(request.uri().path()), "/" | "/docs"))?;
    }
    // Every request of MCP is a POST: the endpoint tells those that change something.
    if is_change(request.method()) && app.links.below_base(request.uri().path()) != "/mcp" {
        check_not_stopping(app)?;
    }
    Ok(())
}

/// Refuses what starts or changes something while the server is stopping.
pub(crate) fn check_not_stopping(app: &AppState) -> Result<(), Fault> {
    if app.stopping.is_cancelled() {
        return Err(Fault::new(Code::Draining, "The server is stopping; send this again to its successor."));
    }
    Ok(())
}

fn is_change(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

fn check_head_size(request: &Request, most: usize) -> Result<(), Fault> {
    let headers: usize = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    if headers + target > most {
        let detail = format!("Request line and headers may have {most} bytes together.");
        return Err(Fault::new(Code::HeadersTooLarge, detail).with("limit", most));
    }
    Ok(())
}

/// Refuses credentials in URLs, because URLs end up in logs and histories.
fn check_no_credentials(uri: &Uri) -> Result<(), Fault> {
    const NAMES: [&str; 8] = ["token", "access_token", "api_key", "apikey", "key", "authorization", "bearer", "secret"];
    let query = uri.query().unwrap_or_default();
    let mut names = url::form_urlencoded::parse(query.as_bytes()).map(|(name, _)| name);
    match names.find(|name| NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))) {
        Some(name) => {
            let detail =
                "A key never travels in a URL: use the Authorization header or, for a WebSocket, a subprotocol.";
            Err(Fault::new(Code::Malformed, detail).at(format!("?{name}"), "is a credential"))
        }
        None => Ok(()),
    }
}

/// Refuses a second `Host` (RFC 9112, 3.2), because whoever passed the request on may have checked that one.
fn check_one_host(headers: &HeaderMap) -> Result<(), Fault> {
    match headers.get_all(HOST).iter().count() {
        0 | 1 => Ok(()),
        _ => Err(Fault::new(Code::Malformed, "A request has only one Host header.")),
    }
}

fn check_host(app: &AppState, headers: &HeaderMap) -> Result<(), Fault> {
    let host = headers.get(HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let name = without_port(host);
    if is_loopback(name) || app.links.is_own_host(name) {
        return Ok(());
    }
    Err(Fault::new(Code::HostRefused, "Call this server as localhost or 127.0.0.1, or set public_url or keys."))
}

/// Refuses requests that a web page of another origin made a browser send. `is_link` allows requests without an
/// `Origin`, as a browser sends for links.
pub(crate) fn check_origin(app: &AppState, headers: &HeaderMap, is_link: bool) -> Result<(), Fault> {
    let refused = || {
        let detail = "This web page may not call; its origin must be listed in cors_origins.";
        Err(Fault::new(Code::OriginRefused, detail))
    };
    let Some(origin) = headers.get(ORIGIN) else {
        let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
        let is_foreign = matches!(site, Some(b"cross-site" | b"same-site"));
        return if is_foreign && !is_link { refused() } else { Ok(()) };
    };
    let origin = origin.to_str().unwrap_or_default();
    let host = headers.get(HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let same = origin.strip_prefix("http://").is_some_and(|authority| authority.eq_ignore_ascii_case(host));
    let allowed = app.config.server.cors_origins.iter().any(|known| known.trim_end_matches('/') == origin);
    if same || allowed || app.links.public_origin().as_deref() == Some(origin) {
        return Ok(());
    }
    if origin == "null" {
        let detail = "A page from a file, or in a sandbox, has no origin of its own (`null`), so it cannot be listed in \
                      cors_origins: serve it over HTTP, and list that origin.";
        return Err(Fault::new(Code::OriginRefused, detail));
    }
    refused()
}

/// `[::1]:7070` → `::1`, `localhost:7070` → `localhost`.
fn without_port(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    host.split(':').next().unwrap_or_default()
}

fn is_loopback(name: &str) -> bool {
    let address = name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    address || name.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_compared_without_their_port() {
        for ours in ["localhost", "LOCALHOST:7070", "127.0.0.1:1", "[::1]:7070", "127.9.9.9"] {
            assert!(is_loopback(without_port(ours)), "{ours}");
        }
        for theirs in ["", "evil.example", "localhost.evil.example:7070", "127.0.0.1.evil.example", "10.0.0.1"] {
            assert!(!is_loopback(without_port(theirs)), "{theirs}");
        }
    }

    #[test]
    fn credentials_in_a_url_are_refused() {
        assert!(check_no_credentials(&"/threads?limit=1&q=token".parse().unwrap()).is_ok());
        assert!(check_no_credentials(&"/threads?Access_Token=x".parse().unwrap()).is_err());
        assert!(check_no_credentials(&"/threads?%6bey=x".parse().unwrap()).is_err());
    }
}
