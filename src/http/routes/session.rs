//! `/whoami` and `/session`: who a caller is, and how a browser signs in without keeping its key.

use axum::Json;
use axum::extract::State;
use axum::http::header::{ORIGIN, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::auth::PersonSession;
use crate::domain::caller::{Caller, Scope};
use crate::domain::fault::{Code, Fault};
use crate::http::app_state::AppState;
use crate::http::caller::{Authenticated, MayAdmin, pass};
use crate::http::page::Listed;
use crate::http::params::{NoParams, Params, wrong};
use crate::http::problem::HttpResult;
use crate::http::session_cookie;

/// The caller, as this server identifies it.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Whoami {
    /// The name under which decisions are recorded: the key's name, or `local` if no key is needed.
    key_name: String,
    tenant: String,
    /// `admin` includes the others.
    scopes: Vec<Scope>,
    /// No key is needed: nobody has to sign in.
    open: bool,
}

/// The caller, and what its key may do. 401 if a key is needed and the request has neither a key nor a session.
#[utoipa::path(get, path = "/whoami", operation_id = "whoAmI", tag = "keys",
    responses((status = 200, body = Whoami)))]
pub(crate) async fn whoami(
    Authenticated(caller): Authenticated,
    State(app): State<AppState>,
    _: NoParams,
) -> HttpResult<Json<Whoami>> {
    Ok(Json(whoami_of(&app, caller).await?))
}

/// Sign in: a browser sends its key once and gets a cookie for twelve hours, which its scripts cannot read. The session
/// has the rights of the key, and ends when the key is revoked. If no key is needed, no cookie is set.
#[utoipa::path(post, path = "/session", operation_id = "beginSession", tag = "keys",
    responses((status = 200, body = Whoami, headers(("Set-Cookie" = Option<String>)))))]
pub(crate) async fn begin(
    Authenticated(caller): Authenticated,
    State(app): State<AppState>,
    _: NoParams,
    parts: Parts,
) -> HttpResult<Response> {
    same_origin(&app, &parts)?;
    let session = app.keys.begin_session(&pass(&app, &parts)?).await?;
    let cookie = session.map(|session| cookie(session_cookie::set(&app, &parts, &session)));
    let whoami_of = Json(whoami_of(&app, caller).await?);
    Ok(match cookie {
        Some(cookie) => (cookie, whoami_of).into_response(),
        None => whoami_of.into_response(),
    })
}

/// Sign out: the session ends on every replica within two seconds, and the browser deletes the cookie.
#[utoipa::path(delete, path = "/session", operation_id = "endSession", tag = "keys", responses((status = 204)))]
pub(crate) async fn end(
    _: Authenticated,
    State(app): State<AppState>,
    _: NoParams,
    parts: Parts,
) -> HttpResult<Response> {
    same_origin(&app, &parts)?;
    app.keys.end_session(&pass(&app, &parts)?).await?;
    Ok((cookie(session_cookie::forget(&app, &parts)), StatusCode::NO_CONTENT).into_response())
}

/// The sessions of people who signed in at an issuer or with a token, those of one person next to each other: of all people
/// of the caller's tenant, or of one.
///
/// A page may have fewer sessions than `limit`. The sessions of keys are not listed: they end with the key.
#[utoipa::path(get, path = "/sessions", operation_id = "listSessionsOfPeople", tag = "keys",
    params(("name" = Option<String>, Query, description = "the person: `iss#sub`"),
        ("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = Listed<PersonSession>)))]
pub(crate) async fn list_of_people(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    mut params: Params,
) -> HttpResult<Json<Listed<PersonSession>>> {
    let name = person(&app, &mut params)?;
    let (page, list) = params.page()?;
    params.finish()?;
    Ok(Json(list.page(app.keys.sessions_of_people(&caller, name.as_deref(), &page).await?)))
}

/// The parameter that names a person.
fn person(app: &AppState, params: &mut Params) -> Result<Option<String>, Fault> {
    let name = params.text("name");
    let is_no_person = name.as_ref().is_some_and(|name| !app.keys.may_be_person(name));
    if is_no_person {
        Err(wrong("name", "must be a person of a configured issuer: `iss#sub`, with `%23` for `#`"))
    } else {
        Ok(name)
    }
}

/// How many sessions were ended.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct EndedSessions {
    ended: u64,
}

/// End all sessions of a person who signed in at an issuer or with a token, on every replica within two seconds.
///
/// What they opened ends within five. A person whom the issuer still lets in can sign in again. The sessions of a key end
/// with the key.
#[utoipa::path(delete, path = "/sessions", operation_id = "endSessionsOfPerson", tag = "keys",
    params(("name" = String, Query, description = "the person: `iss#sub`")),
    responses((status = 200, body = EndedSessions)))]
pub(crate) async fn end_of_person(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    mut params: Params,
) -> HttpResult<Json<EndedSessions>> {
    let name = person(&app, &mut params)?.ok_or_else(|| wrong("name", "is missing"))?;
    params.finish()?;
    Ok(Json(EndedSessions { ended: app.keys.end_sessions_of(&caller, &name).await? }))
}

/// Sessions are for pages of this server, also where other origins may call with a key.
fn same_origin(app: &AppState, parts: &Parts) -> Result<(), Fault> {
    let origin = parts.headers.get(ORIGIN).and_then(|value| value.to_str().ok());
    let Some(origin) = origin.filter(|origin| !session_cookie::is_own(app, parts, origin)) else { return Ok(()) };
    let detail = format!(
        "Only pages of this server have sessions; send a key with each request. If {origin} is this server, behind a proxy, \
         set PES_PUBLIC_URL to that address."
    );
    Err(Fault::new(Code::OriginRefused, detail))
}

fn cookie(value: HeaderValue) -> [(HeaderName, HeaderValue); 1] {
    [(SET_COOKIE, value)]
}

async fn whoami_of(app: &AppState, caller: Caller) -> Result<Whoami, Fault> {
    let open = app.keys.is_open().await?;
    Ok(Whoami { key_name: caller.name, tenant: caller.tenant_name, scopes: caller.scopes, open })
}
