//! The cookie of a browser's session. Scripts cannot read it, and it counts only for what pages of this server ask: a cookie
//! that comes with the origin of another page is no credential.

use std::net::IpAddr;

use axum::http::header::{COOKIE, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method};

use super::app_state::AppState;
use super::remote_addr::RemoteAddr;
use crate::auth::{LOGIN, Session};

const NAME: &str = "pes_session";
/// Of what a browser carries while it signs in at an issuer.
const LOGIN_NAME: &str = "pes_login";

/// What the browser holds, if a page of this server asks.
pub(crate) fn token<'p>(app: &AppState, parts: &'p Parts) -> Option<&'p str> {
    cookie(parts, NAME).filter(|_| is_asked_by_own_page(app, parts))
}

fn cookie<'p>(parts: &'p Parts, wanted: &str) -> Option<&'p str> {
    let sent = parts.headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut cookies = sent.flat_map(|value| value.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    cookies.find(|(name, _)| *name == wanted).map(|(_, value)| value)
}

/// A browser names the origin of the page with every change and with every socket; where it does not, it says whether the
/// page is ours. Looking needs neither: from other sites the cookie is not sent at all.
fn is_asked_by_own_page(app: &AppState, parts: &Parts) -> bool {
    if let Some(origin) = parts.headers.get(ORIGIN) {
        return origin.to_str().is_ok_and(|origin| is_own(app, parts, origin));
    }
    match parts.headers.get("sec-fetch-site").map(HeaderValue::as_bytes) {
        Some(site) => matches!(site, b"same-origin" | b"none"),
        None => matches!(parts.method, Method::GET | Method::HEAD),
    }
}

/// Whether a page of this origin came from here.
pub(crate) fn is_own(app: &AppState, parts: &Parts, origin: &str) -> bool {
    let base = url::Url::parse(&app.links.base(peer(parts), &parts.headers)).ok();
    if base.is_some_and(|base| base.origin().ascii_serialization() == origin) {
        return true;
    }
    let host = parts.headers.get(HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    origin.split_once("://").is_some_and(|(_, authority)| !host.is_empty() && authority.eq_ignore_ascii_case(host))
}

/// Has the browser hold this.
pub(crate) fn set(app: &AppState, parts: &Parts, session: &Session) -> HeaderValue {
    written(app, parts, &session.token, session.seconds)
}

/// Has the browser forget it.
pub(crate) fn forget(app: &AppState, parts: &Parts) -> HeaderValue {
    written(app, parts, "", 0)
}

fn written(app: &AppState, parts: &Parts, token: &str, seconds: i64) -> HeaderValue {
    let path = path(app, parts);
    let path = if path.is_empty() { "/" } else { &path };
    of_parts(app, &format!("{NAME}={token}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Strict"))
}

/// What the browser carries while it signs in at an issuer. It counts for nothing but the end of that, and comes along when
/// the issuer's page leads back here.
pub(crate) fn login(parts: &Parts) -> Option<&str> {
    cookie(parts, LOGIN_NAME)
}

pub(crate) fn set_login(app: &AppState, parts: &Parts, carried: &str) -> HeaderValue {
    written_login(app, parts, carried, LOGIN / 1000)
}

pub(crate) fn forget_login(app: &AppState, parts: &Parts) -> HeaderValue {
    written_login(app, parts, "", 0)
}

fn written_login(app: &AppState, parts: &Parts, carried: &str, seconds: i64) -> HeaderValue {
    let path = path(app, parts);
    let rest = format!("Path={path}/session/oidc; Max-Age={seconds}; HttpOnly; SameSite=Lax");
    of_parts(app, &format!("{LOGIN_NAME}={carried}; {rest}"))
}

/// Where the browser that asks finds this server, on its host.
pub(crate) fn path(app: &AppState, parts: &Parts) -> String {
    app.links.path(peer(parts), &parts.headers)
}

fn peer(parts: &Parts) -> Option<IpAddr> {
    parts.extensions.get::<RemoteAddr>().map(|peer| peer.0.ip())
}

fn of_parts(app: &AppState, cookie: &str) -> HeaderValue {
    let is_https = app.links.public_origin().is_some_and(|origin| origin.starts_with("https://"));
    let secure = if is_https { "; Secure" } else { "" };
    HeaderValue::from_str(&format!("{cookie}{secure}")).expect("digits, letters and a path are visible ASCII")
}
