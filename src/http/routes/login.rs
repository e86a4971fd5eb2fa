//! `/session/oidc`: a browser signs in at an issuer (OpenID Connect) and gets a session.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, LOCATION, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use url::form_urlencoded::Serializer;

use crate::auth::{FailedLogin, LoginCallback};
use crate::domain::fault::{Code, Fault};
use crate::http::app_state::AppState;
use crate::http::caller::client_address;
use crate::http::console;
use crate::http::params::{NoParams, Params};
use crate::http::problem::{HttpResult, Problem};
use crate::http::session_cookie;

/// The longest part of the page that a login remembers: it is in a cookie.
const MAX_PLACE_BYTES: usize = 512;

/// The issuers at which people can sign in.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct SignInIssuers {
    /// Names of issuers; `/session/oidc/{name}` starts a sign-in.
    names: Vec<String>,
}

/// The issuers at which people can sign in with a browser; needs no key.
#[utoipa::path(get, path = "/session/oidc", operation_id = "listSignInIssuers", tag = "keys",
    responses((status = 200, body = SignInIssuers)))]
pub(crate) async fn list(State(app): State<AppState>, _: NoParams) -> Json<SignInIssuers> {
    Json(SignInIssuers { names: app.keys.sign_in_issuers() })
}

/// Redirects a browser to an issuer, with a cookie for ten minutes; needs no key.
///
/// If that fails, a client that accepts HTML is redirected to the page, which says why.
#[utoipa::path(get, path = "/session/oidc/{name}", operation_id = "beginLogin", tag = "keys",
    params(("to" = Option<String>, Query, description = "the part of the page to show after signing in: `#/…`, at most \
        512 characters; anything else is ignored")),
    responses((status = 303, headers(("Location" = String), ("Set-Cookie" = String)))))]
pub(crate) async fn begin(
    State(app): State<AppState>,
    Path(name): Path<String>,
    mut params: Params,
    parts: Parts,
) -> HttpResult<Response> {
    let place = params.text("to").filter(|to| is_place(to));
    params.finish()?;
    let redirect_uri = format!("{}/session/oidc/{name}/callback", app.base(&parts));
    match app.keys.begin_login(&name, redirect_uri, place.clone()).await {
        Ok(login) => redirect(&login.to, session_cookie::set_login(&app, &parts, &login)),
        Err(fault) => refuse(&app, &parts, FailedLogin { place, ..fault.into() }, None),
    }
}

/// Where the issuer redirects the browser to: exchanges the code, begins a session as with a key, and redirects to the
/// page.
///
/// If that fails, a client that accepts HTML is redirected to the page, which says why.
#[utoipa::path(get, path = "/session/oidc/{name}/callback", operation_id = "finishLogin", tag = "keys",
    params(("code" = Option<String>, Query), ("state" = Option<String>, Query), ("iss" = Option<String>, Query),
        ("error" = Option<String>, Query)),
    responses((status = 303, headers(("Location" = String), ("Set-Cookie" = String)))))]
pub(crate) async fn finish(
    State(app): State<AppState>,
    Path(name): Path<String>,
    mut params: Params,
    parts: Parts,
) -> HttpResult<Response> {
    // Issuers add parameters of their own.
    let returned = LoginCallback {
        code: params.text("code"),
        state: params.text("state"),
        iss: params.text("iss"),
        error: params.text("error"),
    };
    // Counted before the issuer is called, so that nobody makes this server call it without a limit.
    let client = client_address(&app, &parts);
    if let Err(fault) = client.map_or(Ok(()), |client| app.rates.count_wrong_key(client)) {
        return refuse(&app, &parts, fault.into(), None);
    }
    let state = returned.state.as_deref().unwrap_or_default();
    let finished = app.keys.finish_login(&name, session_cookie::login(&parts, state), &returned).await;
    let has_failed = finished.as_ref().is_err_and(|failed| failed.fault.code == Code::Unauthorized);
    if let Some(client) = client.filter(|_| !has_failed) {
        app.rates.discount_sign_in(client);
    }
    let forgotten = session_cookie::forget_login(&app, &parts, state);
    match finished {
        Ok(finished) => {
            let place = finished.place.unwrap_or_default();
            let session = session_cookie::set(&app, &parts, &finished.session);
            redirect(&format!("{}/{place}", session_cookie::path(&app, &parts)), [session].into_iter().chain(forgotten))
        }
        Err(failed) => refuse(&app, &parts, failed, forgotten),
    }
}

/// Whether this is a part of the page, and not another page: what a browser shows after `#`, as it is sent in a header.
fn is_place(to: &str) -> bool {
    to.starts_with("#/") && to.len() <= MAX_PLACE_BYTES && to.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A browser is redirected to the page, which has words for the problem and lets the person begin again; others get the
/// problem document.
fn refuse(app: &AppState, parts: &Parts, failed: FailedLogin, forgotten: Option<HeaderValue>) -> HttpResult<Response> {
    if !console::wants_page(&parts.headers) {
        return Err(Problem(failed.fault));
    }
    let mut query = Serializer::new(String::new());
    query.append_pair("problem", failed.problem);
    if let Some(place) = &failed.place {
        query.append_pair("to", place);
    }
    redirect(&format!("{}/#/login?{}", session_cookie::path(app, parts), query.finish()), forgotten)
}

/// A redirect that sets these cookies.
fn redirect(url: &str, cookies: impl IntoIterator<Item = HeaderValue>) -> HttpResult<Response> {
    let to = HeaderValue::from_str(url)
        .map_err(|_| Fault::new(Code::Internal, "The URL to redirect to is no valid header value."))?;
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    headers.insert(LOCATION, to);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for cookie in cookies {
        headers.append(SET_COOKIE, cookie);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_part_of_the_page_is_a_place_to_return_to() {
        for place in ["#/", "#/usage", "#/t/a%20b?at=3&tab=ask"] {
            assert!(is_place(place), "{place}");
        }
        let long = format!("#/{}", "a".repeat(MAX_PLACE_BYTES - 1));
        for other in [
            "",
            "#",
            "#x",
            "/",
            "/#/usage",
            "//evil.example",
            "https://evil.example/#/",
            "#/a b",
            "#/\r\nx: y",
            long.as_str(),
        ] {
            assert!(!is_place(other), "{other}");
        }
    }
}
