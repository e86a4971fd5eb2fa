//! The cookie of a browser's session. Scripts cannot read it. It is valid only for requests of this server's own pages:
//! with the origin of another page it is no credential.

use axum::http::header::{COOKIE, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method};

use super::app_state::AppState;
use super::remote_addr::RemoteAddr;
use crate::auth::{LOGIN_TTL, Session};

const NAME: &str = "pes_session";
/// The cookie that a browser has while it signs in at an issuer.
const LOGIN_NAME: &str = "pes_login";

/// The session's token, if one of this server's pages sent the request.
pub(crate) fn token<'p>(app: &AppState, parts: &'p Parts) -> Option<&'p str> {
    cookie(parts, NAME).filter(|_| is_from_own_page(app, parts))
}

fn cookie<'p>(parts: &'p Parts, wanted: &str) -> Option<&'p str> {
    let sent = parts.headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut cookies = sent.flat_map(|value| value.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    cookies.find(|(name, _)| *name == wanted).map(|(_, value)| value)
}

/// Browsers send the origin of the page with every change and every socket; otherwise they say whether the page is of
/// the same site. Reads need neither: from other sites the cookie is not sent at all.
fn is_from_own_page(app: &AppState, parts: &Parts) -> bool {
    if let Some(origin) = parts.headers.get(ORIGIN) {
        return origin.to_str().is_ok_and(|origin| is_own(app, parts, origin));
    }
    match parts.headers.get("sec-fetch-site").map(HeaderValue::as_bytes) {
        Some(site) => matches!(site, b"same-origin" | b"none"),
        None => matches!(parts.method, Method::GET | Method::HEAD),
    }
}

/// Whether this is the origin of this server's own pages.
pub(crate) fn is_own(app: &AppState, parts: &Parts, origin: &str) -> bool {
    let base = url::Url::parse(&app.base(parts)).ok();
    if base.is_some_and(|base| base.origin().ascii_serialization() == origin) {
        return true;
    }
    let host = parts.headers.get(HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    origin.split_once("://").is_some_and(|(_, authority)| !host.is_empty() && authority.eq_ignore_ascii_case(host))
}

/// Sets the session cookie.
pub(crate) fn set(app: &AppState, parts: &Parts, session: &Session) -> HeaderValue {
    cookie_header(app, parts, &session.token, session.seconds)
}

/// Deletes the session cookie.
pub(crate) fn forget(app: &AppState, parts: &Parts) -> HeaderValue {
    cookie_header(app, parts, "", 0)
}

fn cookie_header(app: &AppState, parts: &Parts, token: &str, seconds: i64) -> HeaderValue {
    let path = path(app, parts);
    let path = if path.is_empty() { "/" } else { &path };
    of_parts(app, &format!("{NAME}={token}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Strict"))
}

/// The cookie of a sign-in at an issuer. It is valid only to complete that sign-in, and is also sent when the issuer's
/// page leads back here.
pub(crate) fn login(parts: &Parts) -> Option<&str> {
    cookie(parts, LOGIN_NAME)
}

pub(crate) fn set_login(app: &AppState, parts: &Parts, carried: &str) -> HeaderValue {
    login_cookie_header(app, parts, carried, LOGIN_TTL / 1000)
}

pub(crate) fn forget_login(app: &AppState, parts: &Parts) -> HeaderValue {
    login_cookie_header(app, parts, "", 0)
}

fn login_cookie_header(app: &AppState, parts: &Parts, carried: &str, seconds: i64) -> HeaderValue {
    let path = path(app, parts);
    let rest = format!("Path={path}/session/oidc; Max-Age={seconds}; HttpOnly; SameSite=Lax");
    of_parts(app, &format!("{LOGIN_NAME}={carried}; {rest}"))
}

/// The path of this server as the browser sees it.
pub(crate) fn path(app: &AppState, parts: &Parts) -> String {
    app.links.path(RemoteAddr::ip(&parts.extensions), &parts.headers)
}

fn of_parts(app: &AppState, cookie: &str) -> HeaderValue {
    let is_https = app.links.public_origin().is_some_and(|origin| origin.starts_with("https://"));
    let secure = if is_https { "; Secure" } else { "" };
    HeaderValue::from_str(&format!("{cookie}{secure}")).expect("digits, letters and a path are visible ASCII")
}
