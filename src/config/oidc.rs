//! `[auth.oidc.NAME]`: OpenID Connect issuers whose tokens this server accepts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use url::{Host, Url};

use super::auth::check_name;
use super::reference::Reference;
use super::{Environment, Error};
use crate::domain::caller::Scope;

/// The settings of one issuer. The name of a claim that begins with `/` is a JSON Pointer, such as `/realm_access/roles`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OidcIssuer {
    /// Its URL, exactly as in the `iss` of its tokens.
    pub issuer: String,
    /// The required `aud` of its tokens.
    pub audience: String,
    /// The accepted signature algorithms.
    #[serde(default = "all_algorithms")]
    pub algorithms: Vec<Algorithm>,
    /// The tenant of all its people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Or the claim with the tenant's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_claim: Option<String>,
    /// The tenants that this claim may name: names, or beginnings of names with a `*` at the end. Absent = any tenant.
    /// A tenant whose name itself ends in `*` cannot be named alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenants: Option<Vec<String>>,
    /// The claim with the scopes: words separated by spaces, or a list of words.
    #[serde(default = "scope_claim")]
    pub scope_claim: String,
    /// Maps the issuer's words to scopes. Empty = read, run, approve and admin are used as they are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scope_map: BTreeMap<String, Vec<Scope>>,
    /// The claim with a person's permanent id.
    #[serde(default = "name_claim")]
    pub name_claim: String,
    /// The tolerated difference between the issuer's clock and this one.
    #[serde(default = "leeway_s")]
    pub leeway_s: u32,
    /// The claim with the groups that rules may name as approvers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups_claim: Option<String>,
    /// This server's client id at the issuer; with it people can sign in on the server's page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<Reference>,
    /// The scopes that are requested at sign-in.
    #[serde(default = "login_scope")]
    pub login_scope: String,
}

/// Signature algorithms; only asymmetric ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Algorithm {
    #[serde(rename = "RS256")]
    Rs256,
    #[serde(rename = "ES256")]
    Es256,
    #[serde(rename = "EdDSA")]
    EdDsa,
}

fn all_algorithms() -> Vec<Algorithm> {
    vec![Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa]
}

fn scope_claim() -> String {
    "scope".to_owned()
}

fn name_claim() -> String {
    "sub".to_owned()
}

fn login_scope() -> String {
    "openid".to_owned()
}

fn leeway_s() -> u32 {
    30
}

/// The maximum tolerated clock difference.
const MAX_LEEWAY_S: u32 = 300;

impl OidcIssuer {
    /// An issuer with only the required settings.
    pub fn new(issuer: &str, audience: &str, tenant: &str) -> Self {
        Self {
            issuer: issuer.to_owned(),
            audience: audience.to_owned(),
            algorithms: all_algorithms(),
            tenant: Some(tenant.to_owned()),
            tenant_claim: None,
            tenants: None,
            scope_claim: scope_claim(),
            scope_map: BTreeMap::new(),
            name_claim: name_claim(),
            leeway_s: leeway_s(),
            groups_claim: None,
            client_id: None,
            client_secret: None,
            login_scope: login_scope(),
        }
    }

    /// Whether its tokens may name this tenant in their claim.
    pub(crate) fn may_name(&self, tenant: &str) -> bool {
        let is_meant = |pattern: &String| {
            pattern.strip_suffix('*').map_or(tenant == pattern, |beginning| tenant.starts_with(beginning))
        };
        self.tenants.as_ref().is_none_or(|patterns| patterns.iter().any(is_meant))
    }

    /// Its words that map to scopes.
    pub(crate) fn words(&self) -> Vec<String> {
        if self.scope_map.is_empty() {
            return ["read", "run", "approve", "admin"].map(str::to_owned).into();
        }
        self.scope_map.keys().cloned().collect()
    }

    /// Why people who sign in on the page may get no rights; `None`: nothing suggests that.
    pub(crate) fn login_warning(&self) -> Option<String> {
        let words = self.words();
        let asks_for_rights = self.login_scope.split(' ').any(|asked| words.iter().any(|word| word == asked));
        if self.client_id.is_none() || self.scope_claim != scope_claim() || asks_for_rights {
            return None;
        }
        Some(format!(
            "login_scope requests none of {}: where an issuer puts only what was requested into `scope`, people who sign \
             in get no rights",
            words.join(", ")
        ))
    }

    /// All checks that are possible without contacting it.
    pub(super) fn check(&self, env: Environment) -> Result<(), String> {
        check_issuer(&self.issuer, env)?;
        if self.audience.is_empty() {
            return Err("audience: it must name this server, as the issuer's tokens do in `aud`".to_owned());
        }
        if self.algorithms.is_empty() {
            return Err("algorithms: name one of RS256, ES256, EdDSA".to_owned());
        }
        match (&self.tenant, &self.tenant_claim) {
            (Some(tenant), None) => check_name(tenant).map_err(|how| format!("tenant: it {how}"))?,
            (None, Some(claim)) if !claim.is_empty() => {}
            (Some(_), Some(_)) => return Err("tenant and tenant_claim: set one of them".to_owned()),
            (None, Some(_) | None) => {
                return Err("set tenant, or tenant_claim: the claim that names the tenant".to_owned());
            }
        }
        self.check_tenants()?;
        if self.scope_map.values().flatten().any(|scope| *scope == Scope::Operator) {
            return Err("scope_map: nobody from an issuer is an operator; configure a key for that".to_owned());
        }
        // Issuers may reassign such names to another person.
        if ["email", "preferred_username", "upn", "name", "nickname"].contains(&self.name_claim.as_str()) {
            let claim = &self.name_claim;
            return Err(format!(
                "name_claim: `{claim}` may be somebody else's tomorrow; take sub, or another lasting id"
            ));
        }
        if self.client_id.is_none() && self.client_secret.is_some() {
            return Err("client_secret: it belongs to a client_id".to_owned());
        }
        if !self.login_scope.split(' ').any(|word| word == "openid") {
            return Err("login_scope: it must contain openid, which has the issuer say who signs in".to_owned());
        }
        if self.leeway_s > MAX_LEEWAY_S {
            return Err(format!("leeway_s: at most {MAX_LEEWAY_S}; set the clocks right"));
        }
        Ok(())
    }

    fn check_tenants(&self) -> Result<(), String> {
        let Some(patterns) = &self.tenants else { return Ok(()) };
        if self.tenant_claim.is_none() {
            return Err("tenants: it says which tenants a tenant_claim may name, and there is none".to_owned());
        }
        if patterns.is_empty() {
            return Err("tenants: name one; without this setting the claim may name any tenant".to_owned());
        }
        for pattern in patterns {
            check_name(pattern).map_err(|how| format!("tenants: `{pattern}` {how}"))?;
            if pattern.strip_suffix('*').unwrap_or(pattern).contains('*') {
                return Err(format!(
                    "tenants: `{pattern}` has a * before its end; write a name, or a beginning and one *"
                ));
            }
        }
        Ok(())
    }
}

/// Checks the issuer's URL, which is the prefix of other URLs and of people's names: nothing may follow its path.
fn check_issuer(issuer: &str, env: Environment) -> Result<(), String> {
    let url = Url::parse(issuer).map_err(|error| format!("issuer: it is no URL: {error}"))?;
    if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() || url.password().is_some() {
        // Not repeated: there may be a password in it.
        return Err("issuer: it must have no user, no query and no fragment".to_owned());
    }
    match url.scheme() {
        "https" => Ok(()),
        "http" if env == Environment::Development || is_loopback(&url) => Ok(()),
        "http" => Err(format!("issuer: `{issuer}` is not https, which PES_ENV=production wants beyond this machine")),
        _ => Err(format!("issuer: `{issuer}` is not an https URL")),
    }
}

pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// Rejects ambiguous and invalid issuers.
pub(super) fn check(issuers: &BTreeMap<String, OidcIssuer>, env: Environment) -> Result<(), Error> {
    for (name, issuer) in issuers {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if !(1..=32).contains(&name.len()) || !name.bytes().all(is_plain) {
            return Err(Error(format!("auth.oidc: the name `{name}` must have 1 to 32 letters, digits, - or _")));
        }
        issuer.check(env).map_err(|why| Error(format!("auth.oidc.{name}: {why}")))?;
        let is_same = |other: &OidcIssuer| (&other.issuer, &other.audience) == (&issuer.issuer, &issuer.audience);
        if let Some((earlier, _)) = issuers.iter().find(|(earlier, other)| *earlier < name && is_same(other)) {
            return Err(Error(format!("auth.oidc: {earlier} and {name} have the same issuer and audience")));
        }
    }
    Ok(())
}
