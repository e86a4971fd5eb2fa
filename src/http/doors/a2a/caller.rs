//! The caller of an A2A request: who it is, its protocol version, and its extensions.

use axum::http::HeaderMap;
use axum::http::request::Parts;

use super::QUESTIONS;
use super::error::A2aError;
use crate::a2a::fault::{Error, Fault};
use crate::a2a::wire::{Method, Version};
use crate::domain::caller::{Caller, Scope};
use crate::http::app_state::AppState;
use crate::http::caller::{authenticate, permit};
use crate::http::header_list::entries;
use crate::http::reply_preferences::ReplyPreferences;

/// A request of a caller that may use its method, and how the caller wants the response.
pub(super) struct A2aRequest {
    method: Method,
    pub(super) app: AppState,
    pub(super) caller: Caller,
    pub(super) preferences: ReplyPreferences,
    pub(super) version: Version,
}

impl A2aRequest {
    /// The request for a method, if the caller has the scope that it needs.
    pub(super) fn permitted(
        app: &AppState,
        caller: Caller,
        method: Method,
        version: Version,
        preferences: ReplyPreferences,
    ) -> Result<Self, A2aError> {
        permit(&caller, scope(method))?;
        Ok(Self { method, app: app.clone(), caller, preferences, version })
    }

    /// The method that the caller may use.
    pub(super) fn method(&self) -> Method {
        self.method
    }

    /// A request may name a tenant, which must be the caller's own. Any other tenant is answered as not existing.
    pub(super) fn check_tenant(&self, named: Option<&str>) -> Result<(), A2aError> {
        if named.is_none_or(|name| name == self.caller.tenant_name) {
            Ok(())
        } else {
            Err(Fault::new(Error::TaskNotFound, "There is nothing of this tenant; leave it out.").into())
        }
    }
}

/// The scope that a method needs.
fn scope(method: Method) -> Scope {
    match method {
        Method::SendMessage
        | Method::SendStreamingMessage
        | Method::CancelTask
        | Method::CreatePushConfig
        // The URL of a receiver may contain a secret, and whoever may create one may see it.
        | Method::GetPushConfig
        | Method::ListPushConfigs
        | Method::DeletePushConfig => Scope::Run,
        Method::SubscribeToTask | Method::GetTask | Method::ListTasks | Method::GetExtendedAgentCard => Scope::Read,
    }
}

/// Authenticates the caller by its key. If A2A is disabled, every request fails, with or without a key.
pub(super) async fn authenticate_caller(app: &AppState, parts: &Parts) -> Result<Caller, A2aError> {
    if !app.config.a2a.enabled {
        return Err(Fault::new(Error::MethodNotFound, "This server does not speak to other agents.").into());
    }
    Ok(authenticate(app, parts).await?)
}

/// The protocol version that the header or the query names.
pub(super) fn version(parts: &Parts) -> Result<Option<Version>, A2aError> {
    let header = parts.headers.get("a2a-version").map(|value| value.to_str().unwrap_or("?").to_owned());
    let query = parts.uri.query().unwrap_or_default();
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    let named = header.or_else(|| pairs.find(|(name, _)| name == "A2A-Version").map(|(_, value)| value.into_owned()));
    let Some(named) = named.filter(|named| !named.trim().is_empty()) else { return Ok(None) };
    match Version::named(&named) {
        Some(version) => Ok(Some(version)),
        None => {
            let known = Version::NAMED.map(Version::as_str).join(", ");
            let fault = Fault::new(Error::VersionNotSupported, format!("Versions {known} of the protocol are spoken."));
            Err(fault.with("supportedVersions", known).into())
        }
    }
}

/// The extension of ours that the caller declares, as a header value.
pub(super) fn extensions(app: &AppState, headers: &HeaderMap) -> Result<Option<&'static str>, A2aError> {
    let mut declared = ["a2a-extensions", "x-a2a-extensions"].into_iter().flat_map(|name| entries(headers, name));
    let is_declared = declared.any(|uri| uri == QUESTIONS);
    if app.config.a2a.requires_questions && !is_declared {
        let fault = Fault::new(Error::ExtensionSupportRequired, format!("Declare `{QUESTIONS}` in A2A-Extensions."));
        return Err(fault.with("extension", QUESTIONS).into());
    }
    Ok(is_declared.then_some(QUESTIONS))
}
