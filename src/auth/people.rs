//! People of issuers as callers: callers with a token or with a session that was created from one, and when their
//! streams end.

use serde_json::json;
use tokio::time::Instant;

use super::keys::{CACHE_TTL, Credential, Keys, MAX_CACHED, Pass, removed, unavailable};
use super::mint::hash;
use super::oidc::{self, Issuers, Person};
use super::refused_logins::{Refusal, RefusalCause};
use crate::domain::caller::{Caller, Scope};
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::TenantPk;
use crate::store::AuditRow;

/// Why the streams of a caller must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessEnd {
    /// The key or token is no longer valid.
    Revoked,
    /// The token has expired.
    Expired,
    /// The session was ended or has expired, or its key is no longer valid.
    SessionOver,
}

impl AccessEnd {
    /// The text that clients receive.
    pub fn why(self) -> &'static str {
        match self {
            Self::Revoked => "the key is not known any more",
            Self::Expired => "the time of the token is over",
            Self::SessionOver => "the session is over",
        }
    }
}

impl Keys {
    /// Adds the people of these issuers. With any issuer, a key or a token is required.
    pub fn with_issuers(mut self, issuers: Issuers) -> Self {
        if !issuers.is_empty() {
            self.lock();
        }
        self.issuers = issuers;
        self
    }

    /// A configured key may have the form of a token, too.
    pub(super) async fn admit_token(&self, token: &str) -> Result<Caller, Refusal> {
        let hash = hash(token);
        if !self.issuers.may_be_token(token) || self.is_configured(&hash) {
            return Ok(self.admit_key(&hash).await?.1);
        }
        match self.issuers.person(token, (self.now)()).await {
            Ok(person) => Ok(self.caller_of(person).await?),
            Err(fault) => Err(Refusal { fault, cause: Some((RefusalCause::Token, None)) }),
        }
    }

    /// A token never gives `operator`, nor does a session that somebody wrote to the database.
    pub(super) async fn caller_of(&self, person: Person) -> Result<Caller, Fault> {
        let tenant = self.tenant(&person.tenant).await?;
        let Person { tenant: tenant_name, name, mut scopes, groups, .. } = person;
        scopes.retain(|scope| *scope != Scope::Operator);
        Ok(Caller { tenant, tenant_name, name, scopes, groups })
    }

    /// Records that the person signed in with a browser, in the audit of their tenant. Refused if that was removed.
    pub(super) async fn audit_sign_in(&self, person: &Person) -> Result<(), Fault> {
        let Caller { tenant, tenant_name, name, scopes, .. } = self.caller_of(person.clone()).await?;
        if self.is_removed(tenant) {
            return Err(Fault::new(Code::Forbidden, removed(&tenant_name)));
        }
        let detail = json!({ "issuer": person.provider, "scopes": scopes });
        let line = AuditRow::of_tenant(tenant, (self.now)(), &name, "sign in", detail);
        self.store.add_line(line).await.map_err(unavailable)
    }

    /// The tenant with this name. Cached only briefly, because tenants can be renamed.
    async fn tenant(&self, name: &str) -> Result<TenantPk, Fault> {
        let known = self.tenants.lock().get(name).filter(|(at, _)| at.elapsed() < CACHE_TTL).map(|(_, tenant)| *tenant);
        if let Some(tenant) = known {
            return Ok(tenant);
        }
        let tenant = self.store.tenant(name, (self.now)()).await.map_err(unavailable)?;
        let mut tenants = self.tenants.lock();
        if tenants.len() >= MAX_CACHED {
            tenants.clear();
        }
        tenants.insert(name.to_owned(), (Instant::now(), tenant));
        Ok(tenant)
    }

    /// Whether credentials that were accepted before are no longer valid, and why. If the store or an issuer does not
    /// answer in time, they count as valid, because streams must not wait for it. What the caller does then is checked by
    /// [`Self::check_again`].
    pub async fn ended(&self, pass: &Pass) -> Option<AccessEnd> {
        tokio::time::timeout(super::keys::RECHECK_TIMEOUT, self.check_again(pass)).await.ok()?.ok()?
    }

    /// The same for something that is to be done with these credentials: it waits for the store and the issuer, and fails
    /// if they do not say.
    pub async fn check_again(&self, pass: &Pass) -> Result<Option<AccessEnd>, Fault> {
        if let Credential::Token(token) = &pass.0
            && self.issuers.may_be_token(token)
            && oidc::ends_at(token).is_some_and(|until| until <= (self.now)())
        {
            return Ok(Some(AccessEnd::Expired));
        }
        match self.admit(pass).await {
            Ok(_) => Ok(None),
            Err(refusal) if refusal.fault.code == Code::Unauthorized => Ok(Some(match &pass.0 {
                Credential::Session(_) => AccessEnd::SessionOver,
                Credential::None | Credential::Key(_) | Credential::Token(_) => AccessEnd::Revoked,
            })),
            Err(refusal) => Err(refusal.fault),
        }
    }
}
