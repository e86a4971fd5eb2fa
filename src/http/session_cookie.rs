//! The cookie of a browser's session. Scripts cannot read it. It is valid only for requests of this server's own pages:
//! with the origin of another page it is no credential.

use axum::http::header::{COOKIE, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method};

use super::app_state::AppState;
use super::remote_addr::RemoteAddr;
use crate::auth::{LOGIN_TTL, Login, Session};

const NAME: &str = "pes_session";
/// How the cookies begin that a browser has while it signs in at an issuer. The beginning of the login's state follows, so
/// that logins in several tabs do not replace each other.
const LOGIN_PREFIX: &str = "pes_login_";
/// How much of the state: it tells logins apart, and the rest cannot be guessed.
const LOGIN_DIGITS: usize = 16;
/// How many logins a browser may have at a time. Beyond that the first ones are forgotten, so that their cookies fit into a
/// request.
const MAX_LOGINS: usize = 5;

/// The session's token, if one of this server's pages sent the request.
pub(crate) fn token<'p>(app: &AppState, parts: &'p Parts) -> Option<&'p str> {
    cookie(parts, NAME).filter(|_| is_from_own_page(app, parts))
}

fn cookie<'p>(parts: &'p Parts, wanted: &str) -> Option<&'p str> {
    cookies(parts).find(|(name, _)| *name == wanted).map(|(_, value)| value)
}

/// The names and values of all cookies.
fn cookies(parts: &Parts) -> impl Iterator<Item = (&str, &str)> {
    let sent = parts.headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    sent.flat_map(|value| value.split(';')).filter_map(|cookie| cookie.trim().split_once('='))
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
    of_parts(app, parts, &format!("{NAME}={token}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Strict"))
}

/// The cookie of the login with this state. It is valid only to complete that login, and is also sent when the issuer's
/// page leads back here.
pub(crate) fn login<'p>(parts: &'p Parts, state: &str) -> Option<&'p str> {
    cookie(parts, &login_name(state)?)
}

/// The cookies for a login that begins: its own, and those that forget the first ones if there would be too many. Browsers
/// send the oldest first.
pub(crate) fn set_login(app: &AppState, parts: &Parts, login: &Login) -> Vec<HeaderValue> {
    let name = login_name(&login.state).expect("this server made the state");
    let own = login_cookie_header(app, parts, &name, &login.carried, LOGIN_TTL / 1000);
    let others: Vec<&str> = cookies(parts).filter_map(|(name, _)| name.strip_prefix(LOGIN_PREFIX)).collect();
    let forgotten = &others[..(others.len() + 1).saturating_sub(MAX_LOGINS)];
    [own].into_iter().chain(forgotten.iter().filter_map(|begin| forget_login(app, parts, begin))).collect()
}

/// Deletes the cookie of the login with this state; `None`: no login has such a state.
pub(crate) fn forget_login(app: &AppState, parts: &Parts, state: &str) -> Option<HeaderValue> {
    Some(login_cookie_header(app, parts, &login_name(state)?, "", 0))
}

fn login_name(state: &str) -> Option<String> {
    let begin = state.get(..LOGIN_DIGITS)?;
    begin.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| format!("{LOGIN_PREFIX}{begin}"))
}

fn login_cookie_header(app: &AppState, parts: &Parts, name: &str, carried: &str, seconds: i64) -> HeaderValue {
    let path = path(app, parts);
    let rest = format!("Path={path}/session/oidc; Max-Age={seconds}; HttpOnly; SameSite=Lax");
    of_parts(app, parts, &format!("{name}={carried}; {rest}"))
}

/// The path of this server as the browser sees it.
pub(crate) fn path(app: &AppState, parts: &Parts) -> String {
    app.links.path(RemoteAddr::ip(&parts.extensions), &parts.headers)
}

fn of_parts(app: &AppState, parts: &Parts, cookie: &str) -> HeaderValue {
    let secure = if app.base(parts).starts_with("https://") { "; Secure" } else { "" };
    HeaderValue::from_str(&format!("{cookie}{secure}")).expect("digits, letters and a path are visible ASCII")
}
