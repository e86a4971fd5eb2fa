//! One issuer: where it says its keys are, and the keys as they were fetched last.
//!
//! Keys are believed for an hour. While the issuer cannot be asked they are believed for a day; with none, nobody is let in.
//! A token that names an unknown key has them fetched anew, at most every 30 seconds however many such tokens come.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::OwnedMutexGuard;
use url::Url;

use super::jwks::{Key, KeySet};
use super::jwt::Jwt;
use super::login::Client;
use super::{in_time, refused};
use crate::config::{Algorithm, OidcIssuer};
use crate::domain::Millis;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::TenantPk;
use crate::egress::{Answer, Bounds, Destination, Egress, Post};

const FRESH: Millis = 3_600_000;
const BELIEVED: Millis = 24 * 3_600_000;
const PAUSE: Millis = 30_000;

const PATIENCE: Duration = Duration::from_secs(5);
/// What one of its documents may have.
const MOST_BYTES: usize = 256 << 10;

pub(super) struct Issuer {
    pub(super) config: OidcIssuer,
    /// Where people sign in with browsers.
    pub(super) client: Option<Client>,
    url: Url,
    egress: Arc<Egress>,
    cached: Mutex<Cached>,
    /// Held by the one who asks the issuer.
    asking: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct Cached {
    found: Option<Found>,
    asked_at: Option<Millis>,
}

struct Found {
    metadata: Arc<Metadata>,
    keys: KeySet,
    at: Millis,
}

/// What an issuer says of itself (OpenID Connect Discovery 1.0), as far as it is needed.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Metadata {
    issuer: String,
    jwks_uri: String,
    pub(super) authorization_endpoint: Option<String>,
    pub(super) token_endpoint: Option<String>,
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

/// What is known of a key.
enum Known {
    /// Believed without asking.
    Fresh(Key),
    /// Believed if the issuer cannot be asked.
    Stale(Key),
    /// There are keys, and not this one.
    Unknown,
    /// There are none that may be believed.
    Nothing,
}

impl Issuer {
    pub(super) fn new(config: OidcIssuer, egress: Arc<Egress>) -> Result<Self, String> {
        let url = config.issuer.parse().map_err(|error| format!("`{}` is no URL: {error}", config.issuer))?;
        let client = Client::of(&config)?;
        Ok(Self { config, client, url, egress, cached: Mutex::default(), asking: Arc::default() })
    }

    /// The key that a token names; `None`: the issuer has none of that name. Fails while nothing is known of its keys.
    pub(super) async fn key(
        self: &Arc<Self>,
        kid: Option<&str>,
        algorithm: Algorithm,
        now: Millis,
    ) -> Result<Option<Key>, Fault> {
        let asking = match self.known(kid, algorithm, now) {
            Known::Fresh(key) => return Ok(Some(key)),
            // One asks; whoever has a key need not wait for what comes of it.
            Known::Stale(key) => match self.asking.clone().try_lock_owned() {
                Ok(asking) => asking,
                Err(_) => return Ok(Some(key)),
            },
            Known::Unknown | Known::Nothing => self.asking.clone().lock_owned().await,
        };
        self.ask_again(asking, now).await;
        match self.known(kid, algorithm, now) {
            Known::Fresh(key) | Known::Stale(key) => Ok(Some(key)),
            Known::Unknown => Ok(None),
            Known::Nothing => Err(self.closed()),
        }
    }

    /// Whether a token is the issuer's, and of now. Fails with the reason, and while nothing is known of its keys.
    pub(super) async fn verify(self: &Arc<Self>, jwt: &Jwt<'_>, now: Millis) -> Result<Millis, Fault> {
        if !self.config.algorithms.contains(&jwt.algorithm) {
            return Err(refused("is signed in a way that is not configured for its issuer".to_owned()));
        }
        // What is over is not worth asking the issuer about.
        let until = in_time(&jwt.claims, now, Millis::from(self.config.leeway_s) * 1000).map_err(refused)?;
        let key = self.key(jwt.kid.as_deref(), jwt.algorithm, now).await?;
        let key = key.ok_or_else(|| refused("is signed with a key that its issuer does not publish".to_owned()))?;
        if !key.signed(jwt.signed, &jwt.signature) {
            return Err(refused("has a signature that is not its issuer's".to_owned()));
        }
        Ok(until)
    }

    /// What it says of itself, as old as its keys may be.
    pub(super) async fn described(self: &Arc<Self>, now: Millis) -> Result<Arc<Metadata>, Fault> {
        if let Some(metadata) = self.metadata_since(now - FRESH) {
            return Ok(metadata);
        }
        let asking = self.asking.clone().lock_owned().await;
        self.ask_again(asking, now).await;
        self.metadata_since(now - BELIEVED).ok_or_else(|| self.closed())
    }

    fn metadata_since(&self, then: Millis) -> Option<Arc<Metadata>> {
        let cached = self.cached.lock();
        cached.found.as_ref().filter(|found| found.at > then).map(|found| found.metadata.clone())
    }

    fn known(&self, kid: Option<&str>, algorithm: Algorithm, now: Millis) -> Known {
        let cached = self.cached.lock();
        let Some(Found { keys, at, .. }) = &cached.found else { return Known::Nothing };
        let age = now - at;
        match keys.find(kid, algorithm) {
            _ if age >= BELIEVED => Known::Nothing,
            Some(key) if age < FRESH => Known::Fresh(key.clone()),
            Some(key) => Known::Stale(key.clone()),
            None => Known::Unknown,
        }
    }

    /// Asks it, unless that was done a moment ago, perhaps by somebody else. Whoever needs a key next may not ask again, so
    /// what comes is kept even if whoever asks hangs up.
    async fn ask_again(self: &Arc<Self>, asking: OwnedMutexGuard<()>, now: Millis) {
        if !self.may_ask(now) {
            return;
        }
        let issuer = self.clone();
        let asked = tokio::spawn(async move {
            let _asking = asking;
            if let Err(why) = issuer.ask(now).await {
                tracing::warn!(issuer = issuer.config.issuer, %why, "the keys of an issuer cannot be fetched");
            }
        });
        // It breaks off with the runtime alone.
        let _ = asked.await;
    }

    /// Whether the pause since it was asked last is over; a clock that was put back waits for nothing.
    fn may_ask(&self, now: Millis) -> bool {
        let mut cached = self.cached.lock();
        let may = cached.asked_at.is_none_or(|at| !(0..PAUSE).contains(&(now - at)));
        if may {
            cached.asked_at = Some(now);
        }
        may
    }

    /// Fetches its keys, and says how many.
    pub(super) async fn ask(&self, now: Millis) -> Result<usize, String> {
        let metadata = self.metadata().await?;
        let keys = metadata.jwks_uri.parse().map_err(|error| format!("`{}` is no URL: {error}", metadata.jwks_uri))?;
        let keys = KeySet::read(&self.fetch(keys).await?)?;
        let count = keys.len();
        self.cached.lock().found = Some(Found { metadata: Arc::new(metadata), keys, at: now });
        Ok(count)
    }

    /// What it says of itself. One that calls itself otherwise is not the one that was configured.
    pub(super) async fn metadata(&self) -> Result<Metadata, String> {
        let issuer = self.config.issuer.trim_end_matches('/');
        let at: Url = format!("{issuer}/.well-known/openid-configuration").parse().map_err(|_| "it is no URL")?;
        let metadata: Metadata = document(&self.fetch(at).await?)?;
        if metadata.issuer != self.config.issuer {
            return Err(format!("it calls itself `{}`", metadata.issuer));
        }
        Ok(metadata)
    }

    async fn fetch(&self, url: Url) -> Result<Bytes, String> {
        let place = url.clone();
        match self.call(Method::GET, url, HeaderMap::new(), Bytes::new()).await? {
            (StatusCode::OK, body) => Ok(body),
            (status, _) => Err(format!("{place} answered {status}")),
        }
    }

    /// Whether what is said there is as hidden as what the issuer itself is told.
    pub(super) fn is_as_safe(&self, url: &Url) -> bool {
        url.scheme() == "https" || url.scheme() == "http" && self.url.scheme() == "http"
    }

    /// One exchange without redirects.
    pub(super) async fn call(
        &self,
        method: Method,
        to: Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), String> {
        if !self.is_as_safe(&to) {
            return Err(format!("{to} is not https, as the issuer is"));
        }
        let place = to.clone();
        let to = if to.origin() == self.url.origin() {
            Destination::Operator(to)
        } else {
            Destination::Untrusted { url: to, tenant: TenantPk::NONE }
        };
        let bounds = Bounds { headers: PATIENCE, stall: PATIENCE, total: PATIENCE, bytes: MOST_BYTES };
        let post = Post { to, headers, body, bounds };
        let answer = self.egress.send(method, post).await.map_err(|error| format!("{place}: {error}"))?;
        let status = answer.status();
        let body = whole(answer).await.map_err(|error| format!("{place}: {error}"))?;
        Ok((status, body))
    }

    /// It answers, and nobody can sign in with what it says.
    pub(super) fn unusable(&self, why: &str) -> Fault {
        tracing::warn!(issuer = self.config.issuer, why, "nobody can sign in at an issuer");
        let detail = format!("Nobody can sign in at {} now: the log of this server says why.", self.config.issuer);
        Fault::new(Code::IssuerUnavailable, detail)
    }

    fn closed(&self) -> Fault {
        let detail = format!(
            "The keys of the issuer {} cannot be fetched, so its tokens cannot be checked; try again.",
            self.config.issuer
        );
        Fault::new(Code::IssuerUnavailable, detail).retry_after(PAUSE)
    }
}

async fn whole(mut answer: Answer) -> Result<Bytes, crate::egress::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        body.extend_from_slice(&chunk);
    }
    Ok(body.into())
}

fn document<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("its answer cannot be read: {error}"))
}
