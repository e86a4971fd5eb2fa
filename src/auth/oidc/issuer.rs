//! One issuer, and its metadata and keys as they were fetched last.
//!
//! Keys are cached for an hour. While the issuer is unreachable they stay valid for a day; without keys all its tokens
//! are refused. A token with an unknown key id triggers a fetch, at most every 30 seconds.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedMutexGuard, Semaphore, SemaphorePermit};
use tokio::time::timeout;
use url::Url;

use super::jwks::{Key, KeySet};
use super::jwt::Jwt;
use super::login::Client;
use super::{check_validity, refused, settings_digest};
use crate::config::{Algorithm, OidcIssuer};
use crate::domain::Millis;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::TenantPk;
use crate::egress::{Bounds, Destination, Egress, OutgoingRequest};

const KEY_TTL: Millis = 3_600_000;
const MAX_KEY_AGE: Millis = 24 * 3_600_000;
const MIN_FETCH_INTERVAL: Millis = 30_000;

const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// How many logins are completed at a time.
const MAX_EXCHANGES: usize = 32;
/// Maximum size of a document from the issuer.
const MAX_DOCUMENT_BYTES: usize = 256 << 10;

pub(super) struct Issuer {
    pub(super) config: OidcIssuer,
    /// Of the settings that say who its people are and what they may do.
    pub(super) settings_digest: String,
    /// Set if browsers can sign in at this issuer.
    pub(super) client: Option<Client>,
    url: Url,
    egress: Arc<Egress>,
    cached: Mutex<Cached>,
    /// Held while the issuer is queried.
    fetch_lock: Arc<tokio::sync::Mutex<()>>,
    /// One for each login that is being completed. Anybody can begin a login and come back with any code, and what comes
    /// back is sent to the issuer.
    exchanges: Semaphore,
}

#[derive(Default)]
struct Cached {
    found: Option<FetchedMetadata>,
    fetched_at: Option<Millis>,
}

struct FetchedMetadata {
    metadata: Arc<Metadata>,
    keys: KeySet,
    at: Millis,
}

impl Cached {
    /// What was fetched. If that was while the clock was ahead, nobody knows when it was: it counts as stale from now on. A
    /// request that began a moment before the fetch is no such case.
    fn found_at(&mut self, now: Millis) -> Option<&FetchedMetadata> {
        let found = self.found.as_mut()?;
        if found.at - now > MIN_FETCH_INTERVAL {
            found.at = now - KEY_TTL;
        }
        Some(found)
    }
}

/// The issuer's metadata (OpenID Connect Discovery 1.0), as far as it is needed.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Metadata {
    issuer: String,
    jwks_uri: String,
    pub(super) authorization_endpoint: Option<String>,
    pub(super) token_endpoint: Option<String>,
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

/// The result of looking up a key in the cache.
enum KeyLookup {
    /// Valid without a fetch.
    Fresh(Key),
    /// Valid only if the issuer cannot be reached.
    Stale(Key),
    /// There are valid keys, but not this one.
    Unknown,
    /// There are no valid keys.
    NoKeys,
}

impl Issuer {
    pub(super) fn new(config: OidcIssuer, egress: Arc<Egress>) -> Result<Self, String> {
        let url = config.issuer.parse().map_err(|error| format!("`{}` is no URL: {error}", config.issuer))?;
        let client = Client::of(&config)?;
        Ok(Self {
            settings_digest: settings_digest(&config),
            config,
            client,
            url,
            egress,
            cached: Mutex::default(),
            fetch_lock: Arc::default(),
            exchanges: Semaphore::new(MAX_EXCHANGES),
        })
    }

    /// The key that a token names; `None`: the issuer has no such key. Fails while there are no valid keys.
    pub(super) async fn key(
        self: &Arc<Self>,
        kid: Option<&str>,
        algorithm: Algorithm,
        now: Millis,
    ) -> Result<Option<Key>, Fault> {
        let fetch_lock = match self.look_up(kid, algorithm, now) {
            KeyLookup::Fresh(key) => return Ok(Some(key)),
            // A single task fetches; others with a stale key do not wait for it.
            KeyLookup::Stale(key) => match self.fetch_lock.clone().try_lock_owned() {
                Ok(fetch_lock) => fetch_lock,
                Err(_) => return Ok(Some(key)),
            },
            KeyLookup::Unknown | KeyLookup::NoKeys => self.fetch_lock.clone().lock_owned().await,
        };
        self.refresh(fetch_lock, now).await;
        match self.look_up(kid, algorithm, now) {
            KeyLookup::Fresh(key) | KeyLookup::Stale(key) => Ok(Some(key)),
            KeyLookup::Unknown => Ok(None),
            KeyLookup::NoKeys => Err(self.keys_unavailable()),
        }
    }

    /// Checks signature and validity period, and returns when the token expires. Also fails while there are no valid
    /// keys.
    pub(super) async fn verify(self: &Arc<Self>, jwt: &Jwt<'_>, now: Millis) -> Result<Millis, Fault> {
        if !self.config.algorithms.contains(&jwt.algorithm) {
            return Err(refused("is signed in a way that is not configured for its issuer".to_owned()));
        }
        // An expired token is not worth a fetch.
        let until = check_validity(&jwt.claims, now, Millis::from(self.config.leeway_s) * 1000).map_err(refused)?;
        if self.has_signed(jwt, now).await? {
            return Ok(until);
        }
        // The issuer may have another key by now under the same name, or keys without names.
        let fetch_lock = self.fetch_lock.clone().lock_owned().await;
        self.refresh(fetch_lock, now).await;
        if self.has_signed(jwt, now).await? {
            return Ok(until);
        }
        Err(refused("has a signature that is not its issuer's".to_owned()))
    }

    /// Whether the key that the token names made its signature.
    async fn has_signed(self: &Arc<Self>, jwt: &Jwt<'_>, now: Millis) -> Result<bool, Fault> {
        let key = self.key(jwt.kid.as_deref(), jwt.algorithm, now).await?;
        let key = key.ok_or_else(|| refused("is signed with a key that its issuer does not publish".to_owned()))?;
        Ok(key.verifies(jwt.signed, &jwt.signature))
    }

    /// The issuer's metadata, cached like its keys.
    pub(super) async fn current_metadata(self: &Arc<Self>, now: Millis) -> Result<Arc<Metadata>, Fault> {
        if let Some(metadata) = self.metadata_younger_than(KEY_TTL, now) {
            return Ok(metadata);
        }
        let fetch_lock = self.fetch_lock.clone().lock_owned().await;
        self.refresh(fetch_lock, now).await;
        self.metadata_younger_than(MAX_KEY_AGE, now).ok_or_else(|| self.keys_unavailable())
    }

    fn metadata_younger_than(&self, age: Millis, now: Millis) -> Option<Arc<Metadata>> {
        let mut cached = self.cached.lock();
        cached.found_at(now).filter(|found| now - found.at < age).map(|found| found.metadata.clone())
    }

    fn look_up(&self, kid: Option<&str>, algorithm: Algorithm, now: Millis) -> KeyLookup {
        let mut cached = self.cached.lock();
        let Some(FetchedMetadata { keys, at, .. }) = cached.found_at(now) else { return KeyLookup::NoKeys };
        let age = now - *at;
        match keys.find(kid, algorithm) {
            _ if age >= MAX_KEY_AGE => KeyLookup::NoKeys,
            Some(key) if age < KEY_TTL => KeyLookup::Fresh(key.clone()),
            Some(key) => KeyLookup::Stale(key.clone()),
            None => KeyLookup::Unknown,
        }
    }

    /// Fetches metadata and keys, unless that was done a moment ago. The fetch is a task of its own: its result is
    /// stored even if the caller disconnects, because the next caller may not fetch again so soon.
    async fn refresh(self: &Arc<Self>, fetch_lock: OwnedMutexGuard<()>, now: Millis) {
        if !self.start_fetch(now) {
            return;
        }
        let issuer = self.clone();
        let fetched = tokio::spawn(async move {
            let _asking = fetch_lock;
            if let Err(why) = issuer.fetch_keys(now).await {
                tracing::warn!(issuer = issuer.config.issuer, %why, "the keys of an issuer cannot be fetched");
            }
        });
        // Fails only when the runtime shuts down.
        let _ = fetched.await;
    }

    /// Whether the minimum interval between fetches has passed; then a new one starts now. A request that began a moment
    /// before the last fetch causes no other one, and a clock that was set back a delay of twice the interval at most.
    fn start_fetch(&self, now: Millis) -> bool {
        let mut cached = self.cached.lock();
        let is_due = cached.fetched_at.is_none_or(|at| (now - at).abs() >= MIN_FETCH_INTERVAL);
        if is_due {
            cached.fetched_at = Some(now);
        }
        is_due
    }

    /// Fetches the keys, and returns their number.
    pub(super) async fn fetch_keys(&self, now: Millis) -> Result<usize, String> {
        let metadata = self.fetch_metadata().await?;
        let keys = metadata.jwks_uri.parse().map_err(|error| format!("`{}` is no URL: {error}", metadata.jwks_uri))?;
        let keys = KeySet::read(&self.fetch(keys).await?)?;
        let count = keys.len();
        self.cached.lock().found = Some(FetchedMetadata { metadata: Arc::new(metadata), keys, at: now });
        Ok(count)
    }

    /// Fetches the metadata, which must have the configured issuer's name.
    pub(super) async fn fetch_metadata(&self) -> Result<Metadata, String> {
        let issuer = self.config.issuer.trim_end_matches('/');
        let at: Url = format!("{issuer}/.well-known/openid-configuration").parse().map_err(|_| "it is no URL")?;
        let metadata: Metadata = document(&self.fetch(at).await?)?;
        if metadata.issuer != self.config.issuer {
            return Err(format!("it calls itself `{}`", metadata.issuer));
        }
        Ok(metadata)
    }

    async fn fetch(&self, url: Url) -> Result<Bytes, String> {
        let url_text = url.clone();
        match self.call(Method::GET, url, HeaderMap::new(), Bytes::new()).await? {
            (StatusCode::OK, body) => Ok(body),
            (status, _) => Err(format!("{url_text} answered {status}")),
        }
    }

    /// Whether this URL is as protected as the issuer's own: https, unless the issuer itself uses http.
    pub(super) fn is_as_secure(&self, url: &Url) -> bool {
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
        if !self.is_as_secure(&to) {
            return Err(format!("{to} is not https, as the issuer is"));
        }
        let asked = to.clone();
        let to = if to.origin() == self.url.origin() {
            Destination::Operator(to)
        } else {
            Destination::Untrusted { url: to, tenant: TenantPk::NONE }
        };
        let bounds =
            Bounds { headers: CALL_TIMEOUT, stall: CALL_TIMEOUT, total: CALL_TIMEOUT, bytes: MAX_DOCUMENT_BYTES };
        let request = OutgoingRequest { method, to, headers, body, bounds };
        let mut answer = self.egress.send(request).await.map_err(|error| format!("{asked}: {error}"))?;
        let body = answer.read_all().await.map_err(|error| format!("{asked}: {error}"))?;
        Ok((answer.status(), body.into()))
    }

    /// Waits for its turn to complete a login, for as long as one call to the issuer may take.
    pub(super) async fn exchange_permit(&self) -> Result<SemaphorePermit<'_>, Fault> {
        timeout(CALL_TIMEOUT, self.exchanges.acquire()).await.ok().and_then(Result::ok).ok_or_else(|| {
            let detail = "Too many people are signing in at this issuer at this moment; try again.";
            Fault::new(Code::TooManyRequests, detail).retry_after(1_000)
        })
    }

    /// The fault if the issuer's answers make signing in impossible.
    pub(super) fn unusable(&self, why: &str) -> Fault {
        tracing::warn!(issuer = self.config.issuer, why, "nobody can sign in at an issuer");
        let detail = format!("Nobody can sign in at {} now: the log of this server says why.", self.config.issuer);
        Fault::new(Code::IssuerUnavailable, detail)
    }

    fn keys_unavailable(&self) -> Fault {
        let detail = format!(
            "The keys of the issuer {} cannot be fetched, so its tokens cannot be checked; try again.",
            self.config.issuer
        );
        Fault::new(Code::IssuerUnavailable, detail).retry_after(MIN_FETCH_INTERVAL)
    }
}

fn document<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("its answer cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    fn issuer() -> Issuer {
        let config = OidcIssuer::new("https://login.example", "pes", "one");
        Issuer::new(config, Arc::new(Egress::new(CALL_TIMEOUT))).unwrap()
    }

    /// Requests do not get the lock in the order in which they read the clock.
    #[test]
    fn a_request_that_began_before_the_last_fetch_causes_no_other() {
        let issuer = issuer();
        assert!(issuer.start_fetch(1_000));
        assert!(!issuer.start_fetch(999));
        assert!(issuer.start_fetch(1_000 - MIN_FETCH_INTERVAL), "the clock was set back");
    }

    #[tokio::test(start_paused = true)]
    async fn beyond_thirty_two_exchanges_a_login_waits_for_five_seconds_at_most() {
        let issuer = issuer();
        let held = issuer.exchanges.acquire_many(32).await.unwrap();
        let began = Instant::now();
        let fault = issuer.exchange_permit().await.expect_err("no exchange ended");
        assert_eq!((fault.code, began.elapsed().as_secs()), (Code::TooManyRequests, 5));
        drop(held);
        assert!(issuer.exchange_permit().await.is_ok());
    }
}
