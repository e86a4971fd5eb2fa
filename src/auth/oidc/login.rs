//! Sign-in with a browser: the code flow with PKCE (OpenID Connect Core 3.1, RFC 7636). The server exchanges the code.
//! The browser carries the login's sealed state, which is valid once and for ten minutes.

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
use super::used_logins::UsedLogins;
use super::{Issuers, Person, person, refused};
use crate::auth::keys::Keys;
use crate::auth::ledger::equals;
use crate::auth::mint::mint_session;
use crate::auth::refused_logins::RefusalCause;
use crate::auth::sessions::{Session, SessionHolder};
use crate::config::env::Variables;
use crate::domain::Millis;
use crate::domain::caller::Scope;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::TenantPk;
use crate::store::documents::{Owner, Sealer};

/// How long a sign-in at the issuer may take.
pub const LOGIN_TTL: Millis = 600_000;

/// This server's registration at an issuer.
pub(super) struct Client {
    pub(super) id: String,
    pub(super) secret: Option<SecretString>,
    /// The requested scopes.
    pub(super) scope: String,
}

/// The URL to redirect the browser to, and the state that it carries until it comes back.
pub struct Login {
    pub to: String,
    pub carried: String,
    /// Names the login in the parameters that the issuer sends back.
    pub state: String,
}

/// A login that was completed.
pub struct FinishedLogin {
    pub session: Session,
    /// The part of the page that the person came for.
    pub place: Option<String>,
}

/// A login that failed.
pub struct FailedLogin {
    pub fault: Fault,
    /// What the page says of it: one of the words that it knows.
    pub problem: &'static str,
    /// The part of the page that the person came for, if that is known.
    pub place: Option<String>,
}

/// The parameters that the issuer sends back through the browser.
#[derive(Clone, Debug, Default)]
pub struct LoginCallback {
    pub code: Option<String>,
    pub state: Option<String>,
    pub iss: Option<String>,
    pub error: Option<String>,
}

/// The state of a login that was started.
#[derive(Serialize, Deserialize)]
struct LoginState {
    state: String,
    nonce: String,
    verifier: String,
    redirect_uri: String,
    until: Millis,
    /// The part of the page that the person came for.
    place: Option<String>,
}

/// What logins need besides their issuers.
pub(in crate::auth) struct Logins {
    sealer: Arc<Sealer>,
    used: Mutex<UsedLogins>,
}

#[derive(Deserialize)]
struct Tokens {
    id_token: String,
    /// The granted scopes.
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
    fn open_state(&self, carried: &str, name: &str) -> Option<LoginState> {
        let sealed = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(carried).ok()?).ok()?;
        serde_json::from_str(&self.sealer.open(&sealed, owner(name)).ok()?).ok()
    }
}

impl Issuers {
    /// The names of the issuers at which browsers can sign in.
    pub fn with_login(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, issuer)| issuer.client.is_some()).map(|(name, _)| name.as_str())
    }

    fn client(&self, name: &str) -> Result<(&Arc<Issuer>, &Client), Fault> {
        let issuer = self.0.get(name);
        issuer.and_then(|issuer| Some((issuer, issuer.client.as_ref()?))).ok_or_else(no_such_login)
    }
}

impl Keys {
    /// Enables sign-in with browsers; `sealer` seals the state that they carry.
    pub fn with_logins(mut self, sealer: Arc<Sealer>) -> Self {
        self.logins = Some(Logins { sealer, used: Mutex::default() });
        self
    }

    fn logins(&self) -> Result<&Logins, Fault> {
        self.logins.as_ref().ok_or_else(no_such_login)
    }

    /// The names of the issuers at which browsers can sign in.
    pub fn sign_in_issuers(&self) -> Vec<String> {
        self.issuers.with_login().map(str::to_owned).collect()
    }

    /// Starts a login for this part of the page; the issuer redirects the browser to `redirect_uri`.
    pub async fn begin_login(&self, name: &str, redirect_uri: String, place: Option<String>) -> Result<Login, Fault> {
        let (issuer, client) = self.issuers.client(name)?;
        let now = (self.now)();
        let metadata = issuer.current_metadata(now).await?;
        let login = LoginState {
            state: mint_session(),
            nonce: mint_session(),
            verifier: mint_session(),
            redirect_uri,
            until: now + LOGIN_TTL,
            place,
        };
        let mut to = endpoint(issuer, metadata.authorization_endpoint.as_deref())?;
        to.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &client.id)
            .append_pair("redirect_uri", &login.redirect_uri)
            .append_pair("scope", &client.scope)
            .append_pair("state", &login.state)
            .append_pair("nonce", &login.nonce)
            .append_pair("code_challenge", &BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&login.verifier)))
            .append_pair("code_challenge_method", "S256");
        let carried = self.logins()?.sealer.seal(&json!(login).to_string(), owner(name))?;
        Ok(Login { to: to.into(), carried: BASE64_URL_SAFE_NO_PAD.encode(carried), state: login.state })
    }

    /// Completes the login of a browser that came back from the issuer.
    pub async fn finish_login(
        &self,
        name: &str,
        carried: Option<&str>,
        callback: &LoginCallback,
    ) -> Result<FinishedLogin, FailedLogin> {
        let begun = self.begun_login(name, carried, callback);
        let place = begun.as_ref().ok().and_then(|login| login.place.clone());
        let signed_in = match begun {
            Ok(login) => self.complete_login(name, &login, callback).await.inspect_err(|failed| {
                tracing::info!(issuer = name, why = failed.fault.detail, "a person was not signed in");
            }),
            Err(failed) => Err(failed),
        };
        match signed_in {
            Ok(session) => Ok(FinishedLogin { session, place }),
            Err(failed) => {
                if failed.fault.code == Code::Unauthorized {
                    self.count_refused(RefusalCause::SignIn, None);
                }
                Err(FailedLogin { place, ..failed })
            }
        }
    }

    /// The login that this browser began.
    fn begun_login(
        &self,
        name: &str,
        carried: Option<&str>,
        callback: &LoginCallback,
    ) -> Result<LoginState, FailedLogin> {
        self.issuers.client(name)?;
        let (logins, now) = (self.logins()?, (self.now)());
        let login = carried.and_then(|carried| logins.open_state(carried, name)).filter(|login| login.until > now);
        let login = login.filter(|login| callback.state.as_deref().is_some_and(|state| equals(&login.state, state)));
        login.ok_or_else(|| over("it began in another browser, or more than ten minutes ago"))
    }

    async fn complete_login(
        &self,
        name: &str,
        login: &LoginState,
        callback: &LoginCallback,
    ) -> Result<Session, FailedLogin> {
        let ((issuer, client), logins) = (self.issuers.client(name)?, self.logins()?);
        let now = (self.now)();
        if callback.iss.as_ref().is_some_and(|iss| *iss != issuer.config.issuer) {
            return Err(failed("another issuer answered").into());
        }
        let code = match (&callback.error, &callback.code) {
            (Some(error), _) => {
                let fault = failed(&format!("the issuer says `{}`", plain(error)));
                return Err(FailedLogin { problem: "denied", ..fault.into() });
            }
            (None, None) => return Err(failed("the issuer sent no code").into()),
            (None, Some(code)) => code,
        };
        let _exchange = issuer.exchange_permit().await?;
        if !logins.used.lock().record_first(login.state.clone(), login.until, now) {
            return Err(over("it was finished before"));
        }
        let tokens = exchange_code(issuer, client, code, login, now).await?;
        let mut person = identify(name, issuer, client, &tokens, login, now).await?;
        if person.scopes.iter().all(|scope| *scope == Scope::Operator) {
            return Err(no_rights(issuer).into());
        }
        // The lifetime of the id token does not limit the session.
        person.until = Millis::MAX;
        self.audit_sign_in(&person).await?;
        Ok(self.add_session(&SessionHolder::Person(person)).await?)
    }
}

fn owner(name: &str) -> Owner<'_> {
    Owner { tenant: TenantPk::NONE, kind: "login", member: "oidc", id: name }
}

fn endpoint(issuer: &Issuer, named: Option<&str>) -> Result<Url, Fault> {
    let url = named.and_then(|url| url.parse::<Url>().ok()).filter(|url| issuer.is_as_secure(url));
    url.ok_or_else(|| issuer.unusable("it does not say where people sign in"))
}

/// Exchanges the code for the issuer's tokens.
async fn exchange_code(
    issuer: &Arc<Issuer>,
    client: &Client,
    code: &str,
    login: &LoginState,
    now: Millis,
) -> Result<Tokens, Fault> {
    let metadata = issuer.current_metadata(now).await?;
    let to = endpoint(issuer, metadata.token_endpoint.as_deref())?;
    let (headers, form) = request(client, code, login, metadata.takes_secrets_in_forms());
    let (status, body) =
        issuer.call(Method::POST, to, headers, form.into()).await.map_err(|why| issuer.unusable(&why))?;
    if status.is_client_error() {
        tracing::warn!(issuer = issuer.config.issuer, %status, "an issuer took no code of a login");
        return Err(failed("the issuer did not take the code"));
    }
    serde_json::from_slice(&body).map_err(|error| issuer.unusable(&format!("its tokens cannot be read: {error}")))
}

/// The request that exchanges a code. Either the headers or the form contain the client's secret.
fn request(client: &Client, code: &str, login: &LoginState, is_secret_in_form: bool) -> (HeaderMap, String) {
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "authorization_code")
        .append_pair("code", code)
        .append_pair("redirect_uri", &login.redirect_uri)
        .append_pair("client_id", &client.id)
        .append_pair("code_verifier", &login.verifier);
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

/// RFC 6749, 2.3.1: both are form-encoded first.
fn basic(id: &str, secret: &SecretString) -> HeaderValue {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encoded(id), encoded(secret.expose_secret()));
    let mut value = HeaderValue::from_str(&format!("Basic {}", BASE64_STANDARD.encode(pair))).expect("base64 is ASCII");
    value.set_sensitive(true);
    value
}

/// The person in the id token, which must belong to this login.
async fn identify(
    name: &str,
    issuer: &Arc<Issuer>,
    client: &Client,
    tokens: &Tokens,
    login: &LoginState,
    now: Millis,
) -> Result<Person, Fault> {
    let Jwt { mut claims, .. } = verified(issuer, client, &tokens.id_token, login, now).await?;
    let scope = &issuer.config.scope_claim;
    if let Some(granted) = tokens.scope.as_ref().filter(|_| scope == "scope" && !claims.0.contains_key(scope)) {
        claims.0.insert(scope.clone(), json!(granted));
    }
    person(name, issuer, &claims, now)
}

async fn verified<'t>(
    issuer: &Arc<Issuer>,
    client: &Client,
    token: &'t str,
    login: &LoginState,
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
    if !jwt.claims.text("nonce").is_some_and(|nonce| equals(nonce, &login.nonce)) {
        return Err(refused("was made for another login".to_owned()));
    }
    issuer.verify(&jwt, now).await?;
    Ok(jwt)
}

/// Reduces a text to characters that are safe in a sentence of a response.
fn plain(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_graphic() && *c != '`').take(64).collect()
}

fn no_such_login() -> Fault {
    Fault::not_found("way to sign in")
}

fn failed(why: &str) -> Fault {
    Fault::new(Code::Unauthorized, format!("Signing in failed: {why}. Begin again."))
}

/// The login cannot be completed any more.
fn over(why: &str) -> FailedLogin {
    FailedLogin { problem: "over", ..failed(why).into() }
}

fn no_rights(issuer: &Issuer) -> Fault {
    let (claim, words) = (&issuer.config.scope_claim, issuer.config.words().join(", "));
    let detail = format!(
        "The issuer gives this person no rights here: the claim `{claim}` has none of {words}. Ask who runs the issuer."
    );
    Fault::new(Code::Forbidden, detail)
}

impl From<Fault> for FailedLogin {
    fn from(fault: Fault) -> Self {
        Self { problem: fault.code.as_str(), fault, place: None }
    }
}

impl Metadata {
    /// Whether the client's secret must be sent in the form, because the issuer supports nothing else.
    fn takes_secrets_in_forms(&self) -> bool {
        let methods = self.token_endpoint_auth_methods_supported.as_deref().unwrap_or_default();
        let has = |name: &str| methods.iter().any(|known| known == name);
        has("client_secret_post") && !has("client_secret_basic")
    }
}
