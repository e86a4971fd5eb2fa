//! People of issuers (OpenID Connect): from a JSON Web Token to who somebody is and what they may.
//!
//! A token is believed if a configured issuer signed it, in a way and with a key that are the issuer's, for this server and
//! for now. Who somebody is, is `iss#sub`: the same in every token, and nobody else's. What they may comes from the token
//! alone, and is never `operator`.

mod issuer;
mod jwks;
mod jwt;
mod login;
mod over;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};

use self::issuer::Issuer;
pub(super) use self::jwt::is_token;
use self::jwt::{Claims, Jwt, Refusal};
pub(super) use self::login::Logins;
pub use self::login::{LOGIN, Returned};
use crate::config::OidcIssuer;
use crate::config::auth::{check_name, is_legible, scope};
use crate::domain::Millis;
use crate::domain::caller::Scope;
use crate::domain::fault::{Code, Fault};
use crate::egress::Egress;

/// The longest id that an issuer may give to somebody (OpenID Connect Core, 2).
const MOST_SUBJECT: usize = 255;
/// How many groups of one person are kept, and how long the name of one may be.
const MOST_GROUPS: usize = 1_000;
const MOST_GROUP: usize = 256;

/// Who showed a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Person {
    /// The name of the issuer in the configuration.
    pub(super) provider: String,
    pub(super) tenant: String,
    /// `iss#sub`.
    pub(super) name: String,
    pub(super) scopes: Vec<Scope>,
    pub(super) groups: Vec<String>,
    /// When the token ends.
    pub(super) until: Millis,
}

/// All configured issuers.
#[derive(Default)]
pub struct Issuers(BTreeMap<String, Arc<Issuer>>);

impl Issuers {
    /// Nothing is fetched before the first token comes. The message names the issuer that cannot be one.
    pub fn new(configured: &BTreeMap<String, OidcIssuer>, egress: &Arc<Egress>) -> Result<Self, String> {
        let issuer = |(name, config): (&String, &OidcIssuer)| {
            let issuer =
                Issuer::new(config.clone(), egress.clone()).map_err(|why| format!("auth.oidc.{name}: {why}"))?;
            Ok((name.clone(), Arc::new(issuer)))
        };
        configured.iter().map(issuer).collect::<Result<_, _>>().map(Self)
    }

    /// Asks each for its keys: its name, and how many it has that can sign tokens, or what is wrong.
    pub async fn ask(&self) -> Vec<(String, Result<usize, String>)> {
        let asked = self.0.iter().map(async |(name, issuer)| (name.clone(), issuer.ask(0).await));
        join_all(asked).await
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether somebody is of an issuer that is still configured under the same name.
    pub(super) fn know(&self, person: &Person) -> bool {
        let issuer = self.0.get(&person.provider).map(|issuer| issuer.config.issuer.as_str());
        issuer.is_some_and(|issuer| person.name.strip_prefix(issuer).is_some_and(|rest| rest.starts_with('#')))
    }

    /// Whether a text may be a token of theirs, and no key.
    pub(super) fn concern(&self, bearer: &str) -> bool {
        !self.is_empty() && is_token(bearer)
    }

    /// Who showed this token. `unauthorized`: it is not believed; `forbidden`: it does not say whose tenant it is.
    pub(super) async fn person(&self, token: &str, now: Millis) -> Result<Person, Fault> {
        let jwt = Jwt::read(token).map_err(refused)?;
        let (name, issuer) = self.of(&jwt.claims).map_err(refused)?;
        let until = issuer.verify(&jwt, now).await?;
        person(name, &issuer.config, &jwt.claims, until)
    }

    /// The issuer that a token names, and for whose audience it was made.
    fn of(&self, claims: &Claims) -> Result<(&String, &Arc<Issuer>), Refusal> {
        let named = claims.text("iss").unwrap_or_default();
        let mut those = self.0.iter().filter(|(_, issuer)| issuer.config.issuer == named).peekable();
        if those.peek().is_none() {
            return Err("is of no issuer that is configured here".to_owned());
        }
        let audience = claims.list("aud");
        let found = those.find(|(_, issuer)| audience.contains(&issuer.config.audience.as_str()));
        found.ok_or_else(|| "was made for another audience".to_owned())
    }
}

/// When an open stream of a token's holder ends; the token was believed when the stream was opened.
pub(super) fn ends_at(token: &str) -> Option<Millis> {
    Jwt::read(token).ok()?.claims.time("exp").ok()?
}

/// When the token ends, if that is not over and its time has begun.
fn in_time(claims: &Claims, now: Millis, leeway: Millis) -> Result<Millis, Refusal> {
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

fn person(provider: &str, config: &OidcIssuer, claims: &Claims, until: Millis) -> Result<Person, Fault> {
    let is_subject = |subject: &&str| (1..=MOST_SUBJECT).contains(&subject.len()) && is_legible(subject);
    let subject = claims.text(&config.name_claim).filter(is_subject);
    let subject =
        subject.ok_or_else(|| refused(format!("does not say who somebody is in its claim `{}`", config.name_claim)))?;
    let tenant = match (&config.tenant, &config.tenant_claim) {
        (Some(tenant), _) => tenant.as_str(),
        (None, claim) => {
            let claim = claim.as_deref().unwrap_or_default();
            let named = claims.text(claim).filter(|tenant| check_name(tenant).is_ok());
            named.ok_or_else(|| homeless(claim))?
        }
    };
    let groups = config.groups_claim.as_deref().map(|claim| claims.list(claim)).unwrap_or_default();
    let groups = groups.into_iter().filter(|group| group.len() <= MOST_GROUP).take(MOST_GROUPS);
    Ok(Person {
        provider: provider.to_owned(),
        tenant: tenant.to_owned(),
        name: format!("{}#{subject}", config.issuer),
        scopes: scopes(config, &claims.words(&config.scope_claim)),
        groups: groups.map(str::to_owned).collect(),
        until,
    })
}

/// What the issuer's words come to here; those that mean nothing here are no harm. `operator` counts for nobody: see
/// `Keys::caller_of`.
fn scopes(config: &OidcIssuer, words: &[&str]) -> Vec<Scope> {
    let mut scopes = Vec::new();
    for word in words {
        let meant = match config.scope_map.get(*word) {
            Some(meant) => meant.clone(),
            None if config.scope_map.is_empty() => scope(word).into_iter().collect(),
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

fn refused(why: Refusal) -> Fault {
    Fault::new(Code::Unauthorized, format!("The token is not accepted: it {why}. Get another from your issuer."))
}

fn homeless(claim: &str) -> Fault {
    let detail = format!("The token does not name a tenant in its claim `{claim}`; ask who runs the issuer for it.");
    Fault::new(Code::Forbidden, detail)
}
