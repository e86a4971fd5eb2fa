//! People of OpenID Connect issuers: from a JSON Web Token to an identity and its scopes.
//!
//! A token is accepted if a configured issuer signed it with a permitted algorithm and one of its own keys, for this
//! server's audience and for the present time. The identity is `iss#sub`, which is stable and unique. The scopes come
//! only from the token, and never include `operator`.

mod issuer;
mod jwks;
mod jwt;
mod login;
mod used_logins;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::issuer::Issuer;
pub(super) use self::jwt::is_token;
use self::jwt::{Claims, Jwt, RejectReason};
#[cfg(feature = "internals")]
pub use self::login::FinishedLogin;
pub(super) use self::login::Logins;
pub use self::login::{FailedLogin, LOGIN_TTL, Login, LoginCallback};
use super::mint::hash;
use crate::config::OidcIssuer;
use crate::config::auth::{check_name, is_legible};
use crate::domain::Millis;
use crate::domain::caller::Scope;
use crate::domain::fault::{Code, Fault};
use crate::egress::Egress;

/// The maximum length of a subject (OpenID Connect Core, 2).
const MAX_SUBJECT_BYTES: usize = 255;
/// How many groups of one person are used, and the maximum length of a group's name.
const MAX_GROUPS: usize = 1_000;
const MAX_GROUP_BYTES: usize = 256;

/// The holder of a token. It is stored as JSON in this order, see `Keys::sessions_of_people`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Person {
    /// The name of the issuer in the configuration.
    pub(super) provider: String,
    pub(super) tenant: String,
    /// `iss#sub`.
    pub(super) name: String,
    pub(super) scopes: Vec<Scope>,
    pub(super) groups: Vec<String>,
    /// When the token expires.
    pub(super) until: Millis,
    /// The digest of the issuer's settings that gave these rights.
    pub(super) settings_digest: String,
}

/// All configured issuers.
#[derive(Default)]
pub struct Issuers(BTreeMap<String, Arc<Issuer>>);

impl Issuers {
    /// Fetches nothing until the first token arrives. The error names the issuer that is configured incorrectly.
    pub fn new(configured: &BTreeMap<String, OidcIssuer>, egress: &Arc<Egress>) -> Result<Self, String> {
        let issuer = |(name, config): (&String, &OidcIssuer)| {
            let issuer =
                Issuer::new(config.clone(), egress.clone()).map_err(|why| format!("auth.oidc.{name}: {why}"))?;
            Ok((name.clone(), Arc::new(issuer)))
        };
        configured.iter().map(issuer).collect::<Result<_, _>>().map(Self)
    }

    /// Fetches the keys of each issuer. Returns the issuers' names, each with the number of usable keys or the error.
    pub async fn fetch_keys(&self) -> Vec<(String, Result<usize, String>)> {
        let fetches = self.0.iter().map(async |(name, issuer)| (name.clone(), issuer.fetch_keys(0).await));
        join_all(fetches).await
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the person's issuer is still configured under the same name, with the settings that gave the rights.
    pub(super) fn knows(&self, person: &Person) -> bool {
        self.0.get(&person.provider).is_some_and(|issuer| issuer.settings_digest == person.settings_digest)
    }

    /// Whether one of these issuers may have a person with this name.
    pub(super) fn may_have(&self, name: &str) -> bool {
        let mut subjects =
            self.0.values().filter_map(|issuer| name.strip_prefix(&issuer.config.issuer)?.strip_prefix('#'));
        subjects.any(is_subject)
    }

    /// Whether a bearer value may be a token of these issuers, and not a key.
    pub(super) fn may_be_token(&self, bearer: &str) -> bool {
        !self.is_empty() && is_token(bearer)
    }

    /// The holder of this token. `unauthorized`: the token is not accepted; `forbidden`: it names no tenant, or one
    /// that its issuer may not name.
    pub(super) async fn person(&self, token: &str, now: Millis) -> Result<Person, Fault> {
        let jwt = Jwt::read(token).map_err(refused)?;
        let (name, issuer) = self.of(&jwt.claims).map_err(refused)?;
        let until = issuer.verify(&jwt, now).await?;
        person(name, issuer, &jwt.claims, until)
    }

    /// The issuer that a token names, if the token has its audience.
    fn of(&self, claims: &Claims) -> Result<(&String, &Arc<Issuer>), RejectReason> {
        let named = claims.text("iss").unwrap_or_default();
        let mut matching = self.0.iter().filter(|(_, issuer)| issuer.config.issuer == named).peekable();
        if matching.peek().is_none() {
            return Err("is of no issuer that is configured here".to_owned());
        }
        let audience = claims.list("aud");
        let found = matching.find(|(_, issuer)| audience.contains(&issuer.config.audience.as_str()));
        found.ok_or_else(|| "was made for another audience".to_owned())
    }
}

/// When an open stream of the token's holder ends. The token was verified when the stream was opened.
pub(super) fn ends_at(token: &str) -> Option<Millis> {
    Jwt::read(token).ok()?.claims.time("exp").ok()?
}

/// Checks that the token is valid now; returns when it expires.
fn check_validity(claims: &Claims, now: Millis, leeway: Millis) -> Result<Millis, RejectReason> {
    let until = claims.time("exp")?.ok_or("does not say when it ends")?;
    if until + leeway <= now {
        return Err("has expired".to_owned());
    }
    for begin in ["nbf", "iat"] {
        if claims.time(begin)?.is_some_and(|at| at - leeway > now) {
            return Err("is not valid yet".to_owned());
        }
    }
    Ok(until)
}

fn person(provider: &str, issuer: &Issuer, claims: &Claims, until: Millis) -> Result<Person, Fault> {
    let config = &issuer.config;
    let subject = claims.text(&config.name_claim).filter(|subject| is_subject(subject));
    let subject =
        subject.ok_or_else(|| refused(format!("does not say who somebody is in its claim `{}`", config.name_claim)))?;
    let tenant = match (&config.tenant, &config.tenant_claim) {
        (Some(tenant), _) => tenant.as_str(),
        (None, claim) => {
            let claim = claim.as_deref().unwrap_or_default();
            let named = claims.one_text(claim).filter(|tenant| check_name(tenant).is_ok());
            let named = named.ok_or_else(|| no_tenant(claim))?;
            if !config.may_name(named) {
                return Err(other_tenant(claim, named));
            }
            named
        }
    };
    let groups = config.groups_claim.as_deref().map(|claim| claims.list(claim)).unwrap_or_default();
    let groups = groups.into_iter().filter(|group| group.len() <= MAX_GROUP_BYTES).take(MAX_GROUPS);
    Ok(Person {
        provider: provider.to_owned(),
        tenant: tenant.to_owned(),
        name: format!("{}#{subject}", config.issuer),
        scopes: scopes(config, &claims.words(&config.scope_claim)),
        groups: groups.map(str::to_owned).collect(),
        until,
        settings_digest: issuer.settings_digest.clone(),
    })
}

fn is_subject(subject: &str) -> bool {
    (1..=MAX_SUBJECT_BYTES).contains(&subject.len()) && is_legible(subject)
}

/// Changes with every setting that may change who an issuer's people are, whom it lets in, or what they may do.
fn settings_digest(config: &OidcIssuer) -> String {
    let OidcIssuer {
        issuer,
        audience,
        algorithms,
        tenant,
        tenant_claim,
        tenants,
        scope_claim,
        scope_map,
        name_claim,
        leeway_s: _,
        groups_claim,
        client_id,
        client_secret: _,
        login_scope,
    } = config;
    let token = json!([issuer, audience, algorithms, client_id, login_scope]);
    let person = json!([name_claim, tenant, tenant_claim, scope_claim, scope_map, groups_claim]);
    let mut settings = vec![token, person];
    // Without it the digest is that of releases before this setting, whose sessions go on.
    settings.extend(tenants.as_ref().map(|tenants| json!(tenants)));
    hash(&json!(settings).to_string())
}

/// Maps the issuer's scopes to ours; unknown ones are ignored. `operator` has no effect: see `Keys::caller_of`.
fn scopes(config: &OidcIssuer, words: &[&str]) -> Vec<Scope> {
    let mut scopes = Vec::new();
    for word in words {
        let meant = match config.scope_map.get(*word) {
            Some(meant) => meant.clone(),
            None if config.scope_map.is_empty() => Scope::named(word).into_iter().collect(),
            None => Vec::new(),
        };
        for scope in meant {
            if !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
    }
    scopes
}

fn refused(why: RejectReason) -> Fault {
    Fault::new(Code::Unauthorized, format!("The token is not accepted: it {why}. Get another from your issuer."))
}

fn no_tenant(claim: &str) -> Fault {
    let detail = format!("The token does not name a tenant in its claim `{claim}`; ask who runs the issuer for it.");
    Fault::new(Code::Forbidden, detail)
}

fn other_tenant(claim: &str, tenant: &str) -> Fault {
    let detail = format!(
        "The token names the tenant `{tenant}` in its claim `{claim}`, which is none of the `tenants` that this issuer may \
         name; ask who runs this server."
    );
    Fault::new(Code::Forbidden, detail)
}
