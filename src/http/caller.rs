//! Authentication and scopes: a handler's first argument names the scope that it needs.

use std::net::IpAddr;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use axum::http::request::Parts;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use super::app_state::AppState;
use super::header_list::entries;
use super::problem::Problem;
use super::remote_addr::RemoteAddr;
use super::scopes::FirstArgument;
use super::session_cookie;
use crate::auth::Pass;
use crate::domain::caller::{Caller, Scope};
use crate::domain::fault::{Code, Fault};

macro_rules! may {
    ($($(#[$doc:meta])* $name:ident: $($scope:ident)|+;)+) => {$(
        $(#[$doc])*
        pub(crate) struct $name(pub(crate) Caller);

        impl FirstArgument for $name {
            const SCOPES: &'static [Scope] = &[$(Scope::$scope),+];
        }

        impl FromRequestParts<AppState> for $name {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Problem> {
                let caller = authenticate(app, parts).await?;
                permit_any(&caller, Self::SCOPES)?;
                Ok(Self(caller))
            }
        }
    )+};
}

may! {
    /// A caller that may read.
    MayRead: Read;
    /// A caller that may start, change and stop runs.
    MayRun: Run;
    /// A caller that may approve.
    MayApprove: Approve;
    /// A caller that may see what is asked, since it may read everything or may answer.
    MayReadQuestions: Read | Approve;
    /// A caller that may create and revoke keys.
    MayAdmin: Admin;
    /// The operator of the whole server.
    MayOperate: Operator;
}

/// A caller with any key, whatever its scopes.
pub(crate) struct Authenticated(pub(crate) Caller);

impl FromRequestParts<AppState> for Authenticated {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Problem> {
        Ok(Self(authenticate(app, parts).await?))
    }
}

impl FirstArgument for Authenticated {
    const SCOPES: &'static [Scope] = &[];
}

/// The operator of the whole server. The request does not count against its rate limits.
pub(crate) struct Watcher;

impl FirstArgument for Watcher {
    const SCOPES: &'static [Scope] = &[Scope::Operator];
}

impl FromRequestParts<AppState> for Watcher {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Problem> {
        permit_any(&authenticate_uncounted(app, parts).await?, Self::SCOPES)?;
        Ok(Self)
    }
}

/// Authenticates the request by its key or session, and counts it against the caller's rate limits.
pub(crate) async fn authenticate(app: &AppState, parts: &Parts) -> Result<Caller, Fault> {
    let caller = authenticate_uncounted(app, parts).await?;
    app.rates.count(&caller, parts.extensions.get())?;
    Ok(caller)
}

async fn authenticate_uncounted(app: &AppState, parts: &Parts) -> Result<Caller, Fault> {
    let from = client_address(app, parts);
    let wrong = || from.map_or(Ok(()), |client| app.rates.count_wrong_key(client));
    app.keys.authenticate_pass(&pass(app, parts)?, from, wrong).await
}

/// The address that wrong keys and failed sign-ins are counted for.
pub(crate) fn client_address(app: &AppState, parts: &Parts) -> Option<IpAddr> {
    let peer = RemoteAddr::ip(&parts.extensions);
    peer.map(|peer| app.links.client(peer, &parts.headers))
}

/// The request's credentials, which are checked again while the response lasts. A key takes precedence over a session.
pub(crate) fn pass(app: &AppState, parts: &Parts) -> Result<Pass, Fault> {
    let key = bearer(&parts.headers)?;
    let session = || session_cookie::token(app, parts).map(Pass::of_session);
    Ok(key.map(|key| Pass::of(Some(&key))).or_else(session).unwrap_or_else(|| Pass::of(None)))
}

/// Refuses a caller without any of these scopes. The refusal names the first.
pub(crate) fn permit_any(caller: &Caller, scopes: &[Scope]) -> Result<(), Fault> {
    if scopes.iter().any(|scope| caller.may(*scope)) { Ok(()) } else { permit(caller, scopes[0]) }
}

/// Refuses a caller without `scope`.
pub(crate) fn permit(caller: &Caller, scope: Scope) -> Result<(), Fault> {
    if caller.may(scope) {
        return Ok(());
    }
    let needed = serde_json::json!(scope);
    let detail = format!("`{}` lacks the scope {needed}; use a key or a token that has it.", caller.name);
    Err(Fault::new(Code::Forbidden, detail).with("scope", needed))
}

/// The key from the Authorization header or, where a browser cannot set one, from a WebSocket subprotocol
/// `bearer.<base64url of the key>`.
fn bearer(headers: &HeaderMap) -> Result<Option<String>, Fault> {
    let unreadable = |how: &str| Fault::new(Code::Unauthorized, format!("Send `Authorization: Bearer <key>`; {how}."));
    if let Some(value) = headers.get(AUTHORIZATION) {
        let text = value.to_str().map_err(|_| unreadable("the header is not ASCII"))?;
        let (scheme, key) = text.split_once(' ').ok_or_else(|| unreadable("the header has no key"))?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(unreadable("no other scheme is known"));
        }
        return Ok(Some(key.trim().to_owned()));
    }
    let token = entries(headers, SEC_WEBSOCKET_PROTOCOL).find_map(|entry| entry.strip_prefix("bearer."));
    let Some(token) = token else { return Ok(None) };
    let key =
        BASE64_URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).ok().and_then(|key| String::from_utf8(key).ok());
    key.map(Some).ok_or_else(|| unreadable("the subprotocol `bearer.` takes the key as base64url"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &'static str, value: &str) -> Result<Option<String>, Fault> {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        bearer(&headers)
    }

    #[test]
    fn a_key_comes_by_header_or_by_subprotocol() {
        assert_eq!(of("authorization", "bearer  k1").unwrap().as_deref(), Some("k1"));
        assert_eq!(of("sec-websocket-protocol", "pes.v1, bearer.azE").unwrap().as_deref(), Some("k1"));
        assert_eq!(of("sec-websocket-protocol", "pes.v1").unwrap(), None);
        for (name, wrong) in
            [("authorization", "Basic x"), ("authorization", "k1"), ("sec-websocket-protocol", "bearer.*")]
        {
            assert_eq!(of(name, wrong).unwrap_err().code, Code::Unauthorized, "{wrong}");
        }
    }
}
