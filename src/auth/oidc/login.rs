//! Signing in with a browser: the code flow with PKCE (OpenID Connect Core 3.1, RFC 7636). The code is exchanged by the
//! server; what a login began with is carried by the browser, sealed, and counts once and for ten minutes.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::issuer::{Issuer, Metadata};
use super::jwt::{Claims, Jwt};
use super::over::Over;
use super::{Issuers, Person, person, refused};
use crate::auth::keys::Keys;
use crate::auth::ledger::same;
use crate::auth::mint::mint_session;
use crate::auth::refused_logins::Cause;
use crate::auth::sessions::{Holder, Session};
use crate::config::env::Variables;
use crate::domain::Millis;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::TenantPk;
use crate::store::documents::{Owner, Sealer};

/// How long somebody may take to sign in at the issuer.
pub const LOGIN: Millis = 600_000;

/// What an issuer knows this server by.
pub(super) struct Client {
    pub(super) id: String,
    pub(super) secret: Option<SecretString>,
    /// What it is asked for.
    pub(super) scope: String,
}

/// Where a browser is sent, and what it is to hold until it comes back.
pub struct Login {
    pub to: String,
    pub carried: String,
}

/// What the issuer has a browser bring back.
#[derive(Clone, Debug, Default)]
pub struct Returned {
    pub code: Option<String>,
    pub state: Option<String>,
    pub iss: Option<String>,
    pub error: Option<String>,
}

/// What a login began with.
#[derive(Serialize, Deserialize)]
struct Begun {
    state: String,
    nonce: String,
    verifier: String,
    redirect_uri: String,
    until: Millis,
}

/// What logins need besides their issuers.
pub(in crate::auth) struct Logins {
    sealer: Arc<Sealer>,
    over: Mutex<Over>,
}

#[derive(Deserialize)]
struct Tokens {
    id_token: String,
    /// What was granted.
    scope: Option<String>,
}

impl Client {
    pub(super) fn of(config: &crate::config::OidcIssuer) -> Result<Option<Self>, String> {
        let Some(id) = config.client_id.clone() else { return Ok(None) };
        let secret =
            config.client_secret.as_ref().map(|secret| secret.resolve(&Variables::of_process())).transpose()?;
        Ok(Some(Self { id, secret, scope: config.login_scope.clone() }))
    }
}

impl Logins {
    fn opened(&self, carried: &str, name: &str) -> Option<Begun> {
        let sealed = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(carried).ok()?).ok()?;
        serde_json::from_str(&self.sealer.open(&sealed, owner(name)).ok()?).ok()
    }
}

impl Issuers {
    /// The names of those that browsers can sign in with.
    pub fn with_login(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, issuer)| issuer.client.is_some()).map(|(name, _)| name.as_str())
    }

    fn client(&self, name: &str) -> Result<(&Arc<Issuer>, &Client), Fault> {
        let issuer = self.0.get(name);
        issuer.and_then(|issuer| Some((issuer, issuer.client.as_ref()?))).ok_or_else(nowhere)
    }
}

impl Keys {
    /// The same with browsers that sign in at an issuer; `sealer` seals what they carry.
    pub fn with_logins(mut self, sealer: Arc<Sealer>) -> Self {
        self.logins = Some(Logins { sealer, over: Mutex::default() });
        self
    }

    fn logins(&self) -> Result<&Logins, Fault> {
        self.logins.as_ref().ok_or_else(nowhere)
    }

    /// The names of the issuers that browsers can sign in with.
    pub fn sign_in_issuers(&self) -> Vec<String> {
        self.issuers.with_login().map(str::to_owned).collect()
    }

    /// Begins to sign in: the browser comes back to `redirect_uri`.
    pub async fn begin_login(&self, name: &str, redirect_uri: String) -> Result<Login, Fault> {
        let (issuer, client) = self.issuers.client(name)?;
        let now = (self.now)();
        let metadata = issuer.described(now).await?;
        let begun = Begun {
            state: mint_session(),
            nonce: mint_session(),
            verifier: mint_session(),
            redirect_uri,
            until: now + LOGIN,
        };
        let mut to = endpoint(issuer, metadata.authorization_endpoint.as_deref())?;
        to.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &client.id)
            .append_pair("redirect_uri", &begun.redirect_uri)
            .append_pair("scope", &client.scope)
            .append_pair("state", &begun.state)
            .append_pair("nonce", &begun.nonce)
            .append_pair("code_challenge", &BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&begun.verifier)))
            .append_pair("code_challenge_method", "S256");
        let carried = self.logins()?.sealer.seal(&json!(begun).to_string(), owner(name))?;
        Ok(Login { to: to.into(), carried: BASE64_URL_SAFE_NO_PAD.encode(carried) })
    }

    /// Signs in whoever came back from the issuer with what they carried.
    pub async fn finish_login(&self, name: &str, carried: Option<&str>, returned: &Returned) -> Result<Session, Fault> {
        let signed_in = self.signed_in(name, carried, returned).await;
        if signed_in.as_ref().is_err_and(|fault| fault.code == Code::Unauthorized) {
            self.count_refused(Cause::SignIn, None);
        }
        signed_in
    }

    async fn signed_in(&self, name: &str, carried: Option<&str>, returned: &Returned) -> Result<Session, Fault> {
        let ((issuer, client), logins) = (self.issuers.client(name)?, self.logins()?);
        let now = (self.now)();
        let begun = carried.and_then(|carried| logins.opened(carried, name)).filter(|begun| begun.until > now);
        let begun = begun.filter(|begun| returned.state.as_deref().is_some_and(|state| same(&begun.state, state)));
        let begun = begun.ok_or_else(|| failed("it began elsewhere, or more than ten minutes ago"))?;
        if returned.iss.as_ref().is_some_and(|iss| *iss != issuer.config.issuer) {
            return Err(failed("another issuer answered"));
        }
        let code = match (&returned.error, &returned.code) {
            (Some(error), _) => return Err(failed(&format!("the issuer says `{}`", plain(error)))),
            (None, None) => return Err(failed("the issuer sent no code")),
            (None, Some(code)) => code,
        };
        if !logins.over.lock().record_first(begun.state.clone(), begun.until, now) {
            return Err(failed("it was finished before"));
        }
        let tokens = exchanged(issuer, client, code, &begun, now).await?;
        let mut person = identified(name, issuer, client, &tokens, &begun, now).await?;
        // The id token says who signed in: how long that counts is the session's.
        person.until = Millis::MAX;
        self.add_session(&Holder::Person(person)).await
    }
}

fn owner(name: &str) -> Owner<'_> {
    Owner { tenant: TenantPk::NONE, kind: "login", member: "oidc", id: name }
}

fn endpoint(issuer: &Issuer, named: Option<&str>) -> Result<Url, Fault> {
    let url = named.and_then(|url| url.parse::<Url>().ok()).filter(|url| issuer.is_as_safe(url));
    url.ok_or_else(|| issuer.unusable("it does not say where people sign in"))
}

/// Has the issuer give its tokens for the code.
async fn exchanged(
    issuer: &Arc<Issuer>,
    client: &Client,
    code: &str,
    begun: &Begun,
    now: Millis,
) -> Result<Tokens, Fault> {
    let metadata = issuer.described(now).await?;
    let to = endpoint(issuer, metadata.token_endpoint.as_deref())?;
    let (headers, form) = request(client, code, begun, metadata.takes_secrets_in_forms());
    let (status, body) =
        issuer.call(Method::POST, to, headers, form.into()).await.map_err(|why| issuer.unusable(&why))?;
    if status.is_client_error() {
        tracing::warn!(issuer = issuer.config.issuer, %status, "an issuer took no code of a login");
        return Err(failed("the issuer did not take the code"));
    }
    serde_json::from_slice(&body).map_err(|error| issuer.unusable(&format!("its tokens cannot be read: {error}")))
}

/// What exchanges a code: headers and a form, one of which has the client's secret.
fn request(client: &Client, code: &str, begun: &Begun, is_secret_in_form: bool) -> (HeaderMap, String) {
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "authorization_code")
        .append_pair("code", code)
        .append_pair("redirect_uri", &begun.redirect_uri)
        .append_pair("client_id", &client.id)
        .append_pair("code_verifier", &begun.verifier);
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    if let Some(secret) = &client.secret {
        if is_secret_in_form {
            form.append_pair("client_secret", secret.expose_secret());
        } else {
            headers.insert(AUTHORIZATION, basic(&client.id, secret));
        }
    }
    (headers, form.finish())
}

/// RFC 6749, 2.3.1: both are written as in a form first.
fn basic(id: &str, secret: &SecretString) -> HeaderValue {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encoded(id), encoded(secret.expose_secret()));
    let mut value = HeaderValue::from_str(&format!("Basic {}", BASE64_STANDARD.encode(pair))).expect("base64 is ASCII");
    value.set_sensitive(true);
    value
}

/// Who signed in, as the id token says that was made for this login.
async fn identified(
    name: &str,
    issuer: &Arc<Issuer>,
    client: &Client,
    tokens: &Tokens,
    begun: &Begun,
    now: Millis,
) -> Result<Person, Fault> {
    let Jwt { mut claims, .. } = believed(issuer, client, &tokens.id_token, begun, now).await?;
    let scope = &issuer.config.scope_claim;
    if let Some(granted) = tokens.scope.as_ref().filter(|_| scope == "scope" && !claims.0.contains_key(scope)) {
        claims.0.insert(scope.clone(), json!(granted));
    }
    person(name, &issuer.config, &claims, now)
}

async fn believed<'t>(
    issuer: &Arc<Issuer>,
    client: &Client,
    token: &'t str,
    begun: &Begun,
    now: Millis,
) -> Result<Jwt<'t>, Fault> {
    let jwt = Jwt::read(token).map_err(refused)?;
    let is_for_us = |claims: &Claims| {
        let audience = claims.list("aud");
        let party = claims.text("azp");
        audience.contains(&client.id.as_str()) && (audience.len() == 1 && party.is_none() || party == Some(&client.id))
    };
    if jwt.claims.text("iss") != Some(&issuer.config.issuer) {
        return Err(refused("is of another issuer".to_owned()));
    }
    if !is_for_us(&jwt.claims) {
        return Err(refused("was made for another client".to_owned()));
    }
    if !jwt.claims.text("nonce").is_some_and(|nonce| same(nonce, &begun.nonce)) {
        return Err(refused("was made for another login".to_owned()));
    }
    issuer.verify(&jwt, now).await?;
    Ok(jwt)
}

/// What may stand in a sentence of an answer.
fn plain(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_graphic() && *c != '`').take(64).collect()
}

fn nowhere() -> Fault {
    Fault::not_found("way to sign in")
}

fn failed(why: &str) -> Fault {
    Fault::new(Code::Unauthorized, format!("Signing in failed: {why}. Begin again."))
}

impl Metadata {
    /// Whether a client's secret stands in the form, as there is no other way.
    fn takes_secrets_in_forms(&self) -> bool {
        let methods = self.token_endpoint_auth_methods_supported.as_deref().unwrap_or_default();
        let has = |name: &str| methods.iter().any(|known| known == name);
        has("client_secret_post") && !has("client_secret_basic")
    }
}
