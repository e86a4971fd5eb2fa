//! People of issuers as callers: who shows a token or holds a session that began with one, and when what they opened ends.

use tokio::time::Instant;

use super::keys::{FRESH, KEPT, Keys, Pass, Shown, unavailable};
use super::mint::hash;
use super::oidc::{self, Issuers, Person};
use super::refused_logins::{Cause, Refusal};
use crate::domain::caller::{Caller, Scope};
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::TenantPk;

/// Why what streams to somebody must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// What they showed counts no more.
    Revoked,
    /// The time of their token is over.
    Expired,
}

impl Ended {
    /// As it is told to whoever listens.
    pub fn why(self) -> &'static str {
        match self {
            Self::Revoked => "the key is not known any more",
            Self::Expired => "the time of the token is over",
        }
    }
}

impl Keys {
    /// The same with people of these issuers: where there is one, nobody is let in without a key or a token.
    pub fn with_issuers(mut self, issuers: Issuers) -> Self {
        if !issuers.is_empty() {
            self.lock();
        }
        self.issuers = issuers;
        self
    }

    /// A configured key may look like a token, too.
    pub(super) async fn admit_token(&self, token: &str) -> Result<Caller, Refusal> {
        let hash = hash(token);
        if !self.issuers.concern(token) || self.is_configured(&hash) {
            return Ok(self.admit_key(&hash).await?.1);
        }
        match self.issuers.person(token, (self.now)()).await {
            Ok(person) => Ok(self.caller_of(person).await?),
            Err(fault) => Err(Refusal { fault, cause: Some((Cause::Token, None)) }),
        }
    }

    /// Nobody is the operator by a token, nor by a session that somebody wrote into the database.
    pub(super) async fn caller_of(&self, person: Person) -> Result<Caller, Fault> {
        let tenant = self.tenant(&person.tenant).await?;
        let Person { tenant: tenant_name, name, mut scopes, groups, .. } = person;
        scopes.retain(|scope| *scope != Scope::Operator);
        Ok(Caller { tenant, tenant_name, name, scopes, groups })
    }

    /// The tenant of this name, who may have been renamed a moment ago.
    async fn tenant(&self, name: &str) -> Result<TenantPk, Fault> {
        let known = self.tenants.lock().get(name).filter(|(at, _)| at.elapsed() < FRESH).map(|(_, tenant)| *tenant);
        if let Some(tenant) = known {
            return Ok(tenant);
        }
        let tenant = self.store.tenant(name, (self.now)()).await.map_err(unavailable)?;
        let mut tenants = self.tenants.lock();
        if tenants.len() >= KEPT {
            tenants.clear();
        }
        tenants.insert(name.to_owned(), (Instant::now(), tenant));
        Ok(tenant)
    }

    /// Whether what was shown before does not let its caller in any more, and why. While the store, or an issuer, does not
    /// say so at once, it does: whatever is then done needs the store as well, and what streams does not wait for it.
    pub async fn ended(&self, pass: &Pass) -> Option<Ended> {
        if let Shown::Token(token) = &pass.0
            && self.issuers.concern(token)
            && oidc::ends_at(token).is_some_and(|until| until <= (self.now)())
        {
            return Some(Ended::Expired);
        }
        let told = tokio::time::timeout(super::keys::PATIENCE, self.admit(pass)).await;
        matches!(told, Ok(Err(refusal)) if refusal.fault.code == Code::Unauthorized).then_some(Ended::Revoked)
    }
}
