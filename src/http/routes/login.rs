//! `/session/oidc`: a browser signs in at an issuer (OpenID Connect) and gets a session.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, HeaderName, LOCATION, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::AppendHeaders;
use serde::Serialize;

use crate::auth::LoginCallback;
use crate::domain::fault::{Code, Fault};
use crate::http::app_state::AppState;
use crate::http::caller::client_address;
use crate::http::params::{NoParams, Params};
use crate::http::problem::HttpResult;
use crate::http::session_cookie;

/// The issuers at which people can sign in.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct SignInIssuers {
    /// Names of issuers; `/session/oidc/{name}` starts a sign-in.
    names: Vec<String>,
}

/// A redirect with cookies.
type Redirect<const N: usize> = (StatusCode, AppendHeaders<[(HeaderName, HeaderValue); N]>);

/// The issuers at which people can sign in with a browser; needs no key.
#[utoipa::path(get, path = "/session/oidc", operation_id = "listSignInIssuers", tag = "keys",
    responses((status = 200, body = SignInIssuers)))]
pub(crate) async fn list(State(app): State<AppState>, _: NoParams) -> Json<SignInIssuers> {
    Json(SignInIssuers { names: app.keys.sign_in_issuers() })
}

/// Redirects a browser to an issuer, with a cookie for ten minutes; needs no key.
#[utoipa::path(get, path = "/session/oidc/{name}", operation_id = "beginLogin", tag = "keys",
    responses((status = 303, headers(("Location" = String), ("Set-Cookie" = String)))))]
pub(crate) async fn begin(
    State(app): State<AppState>,
    Path(name): Path<String>,
    _: NoParams,
    parts: Parts,
) -> HttpResult<Redirect<3>> {
    let login = app.keys.begin_login(&name, format!("{}/session/oidc/{name}/callback", app.base(&parts))).await?;
    let cookie = session_cookie::set_login(&app, &parts, &login.carried);
    Ok((
        StatusCode::SEE_OTHER,
        AppendHeaders([(LOCATION, location_header(&login.to)?), (SET_COOKIE, cookie), no_store()]),
    ))
}

/// Where the issuer redirects the browser to: exchanges the code, begins a session as with a key, and redirects to the
/// page.
#[utoipa::path(get, path = "/session/oidc/{name}/callback", operation_id = "finishLogin", tag = "keys",
    params(("code" = Option<String>, Query), ("state" = Option<String>, Query), ("iss" = Option<String>, Query),
        ("error" = Option<String>, Query)),
    responses((status = 303, headers(("Location" = String), ("Set-Cookie" = String)))))]
pub(crate) async fn finish(
    State(app): State<AppState>,
    Path(name): Path<String>,
    mut params: Params,
    parts: Parts,
) -> HttpResult<Redirect<4>> {
    // Issuers add parameters of their own.
    let returned = LoginCallback {
        code: params.text("code"),
        state: params.text("state"),
        iss: params.text("iss"),
        error: params.text("error"),
    };
    // Counted before the issuer is called, so that nobody makes this server call it without a limit.
    let client = client_address(&app, &parts);
    client.map_or(Ok(()), |client| app.rates.count_wrong_key(client))?;
    let session = app.keys.finish_login(&name, session_cookie::login(&parts), &returned).await;
    let has_failed = session.as_ref().is_err_and(|fault| fault.code == Code::Unauthorized);
    if let Some(client) = client.filter(|_| !has_failed) {
        app.rates.discount_sign_in(client);
    }
    let session = session?;
    let cookies = (session_cookie::set(&app, &parts, &session), session_cookie::forget_login(&app, &parts));
    let to = location_header(&format!("{}/", session_cookie::path(&app, &parts)))?;
    let headers = [(LOCATION, to), (SET_COOKIE, cookies.0), (SET_COOKIE, cookies.1), no_store()];
    Ok((StatusCode::SEE_OTHER, AppendHeaders(headers)))
}

fn location_header(url: &str) -> Result<HeaderValue, Fault> {
    HeaderValue::from_str(url)
        .map_err(|_| Fault::new(Code::Internal, "The URL to redirect to is no valid header value."))
}

fn no_store() -> (HeaderName, HeaderValue) {
    (CACHE_CONTROL, HeaderValue::from_static("no-store"))
}
