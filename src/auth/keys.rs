//! Authentication: from a bearer token to the caller.

mod administration;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use secrecy::ExposeSecret;
use tokio::time::Instant;

use super::ledger::{self, equals};
use super::mint::hash;
use super::oidc::{self, Issuers, Logins};
use super::refused_logins::{Refusal, RefusalCause, RefusedLogins, tenants_for_unknown_keys};
use super::sessions::SessionHolder;
use super::wrong_key_throttle::WrongKeyThrottle;
use crate::config::Auth;
use crate::domain::Millis;
use crate::domain::caller::{Caller, LOCAL, Scope};
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::TenantPk;
use crate::store::documents::DocumentCache;
use crate::store::{self, KeyRow, Store};

pub use administration::ConfiguredApiKey;
pub(crate) use administration::{name_taken, too_many_keys};

/// The tenant of a server that needs no keys.
pub const OPEN_TENANT: &str = "default";

/// How long a result from the store is cached.
pub(super) const CACHE_TTL: Duration = Duration::from_millis(1500);

/// How long callers are refused without a query after the store did not say whether there are keys. A store that is away may
/// take many seconds to fail a query.
const UNANSWERED_TTL: Duration = Duration::from_secs(1);

/// How long an open stream may be delayed by a check of its credentials.
pub(super) const RECHECK_TIMEOUT: Duration = Duration::from_millis(500);

/// How often the credentials of an open stream are checked again. Together with [`CACHE_TTL`], a revoked key loses all
/// access within five seconds.
pub const RECHECK_INTERVAL: Duration = Duration::from_secs(3);

/// A caller's credentials, kept for later checks.
#[derive(Clone)]
pub struct Pass(pub(super) Credential);

/// Keys and sessions are held as hashes.
#[derive(Clone)]
pub(super) enum Credential {
    None,
    Key(String),
    /// A bearer value that has the form of a token, unchanged.
    Token(Arc<str>),
    Session(String),
}

impl Pass {
    pub fn of(bearer: Option<&str>) -> Self {
        Self(match bearer {
            None => Credential::None,
            Some(bearer) if oidc::is_token(bearer) => Credential::Token(bearer.into()),
            Some(key) => Credential::Key(hash(key)),
        })
    }

    /// The credentials of a browser's session.
    pub fn of_session(token: &str) -> Self {
        Self(Credential::Session(hash(token)))
    }
}

/// The server's clock.
pub type Now = Arc<dyn Fn() -> Millis + Send + Sync>;

/// How often the last use of a key is stored.
const TOUCH_INTERVAL: Millis = 3_600_000;

/// How many callers are cached. Failed lookups are not cached, so that guessing keys cannot fill the memory.
pub(super) const MAX_CACHED: usize = 10_000;

/// All valid keys: the configured ones and those in the store.
pub struct Keys {
    configured: Vec<(String, Caller)>,
    open_tenant: TenantPk,
    pub(super) store: Arc<dyn Store>,
    pub(super) now: Now,
    /// Says which tenants were removed. `None`: none can be.
    documents: Option<Arc<DocumentCache>>,
    pub(super) issuers: Issuers,
    /// `None`: browsers cannot sign in.
    pub(super) logins: Option<Logins>,
    /// The tenants of people, by name, with the time of the lookup.
    pub(super) tenants: Mutex<HashMap<String, (Instant, TenantPk)>>,
    /// Callers and when they were read; by the hash of their key, or by `session ` and the hash of their session.
    cached_callers: Mutex<HashMap<String, (Instant, Caller)>>,
    /// How many valid keys a tenant may have in the store.
    max_keys: usize,
    /// Whether the store ever contained a key. It stays set: revoking the last key does not open the server.
    is_locked: AtomicBool,
    open_checked_at: Mutex<Option<Instant>>,
    /// When the store last failed to say whether it is set.
    unanswered_at: Mutex<Option<Instant>>,
    wrong_keys: WrongKeyThrottle,
    pub(super) refused: RefusedLogins,
    /// The tenants whose audit lists refused logins if the key or token belongs to no tenant.
    pub(super) unknown_key_tenants: Vec<TenantPk>,
}

impl Keys {
    /// Looks up the tenants of the configured keys.
    pub async fn open(auth: &Auth, store: Arc<dyn Store>, now: Now) -> store::Result<Self> {
        let mut configured = Vec::new();
        for key in &auth.keys {
            let hash = hash(key.key.expose_secret());
            let caller = Caller {
                tenant: store.tenant(&key.tenant, now()).await?,
                tenant_name: key.tenant.clone(),
                name: key.name.clone().unwrap_or_else(|| derived_name(&hash)),
                scopes: key.scopes.clone(),
                groups: Vec::new(),
            };
            configured.push((hash, caller));
        }
        let stored = store.keys().await?;
        let is_same = |caller: &Caller, key: &KeyRow| (caller.tenant, &caller.name) == (key.tenant, &key.name);
        let stored_as = |caller: &Caller| stored.iter().find(|key| is_same(caller, key)).map(|key| key.key_id.clone());
        if let Some((caller, id)) = configured.iter().find_map(|(_, caller)| Some((caller, stored_as(caller)?))) {
            return Err(store::Error::Unusable(format!(
                "The name `{}` in PES_API_KEYS is that of {id} of the tenant `{}`; give the configured key another.",
                caller.name, caller.tenant_name
            )));
        }
        let open_tenant = store.tenant(OPEN_TENANT, now()).await?;
        Ok(Self {
            is_locked: AtomicBool::new(!configured.is_empty()),
            unknown_key_tenants: tenants_for_unknown_keys(&configured, open_tenant),
            configured,
            open_tenant,
            store,
            now,
            documents: None,
            issuers: Issuers::default(),
            logins: None,
            tenants: Mutex::default(),
            cached_callers: Mutex::new(HashMap::new()),
            max_keys: usize::MAX,
            open_checked_at: Mutex::new(None),
            unanswered_at: Mutex::new(None),
            wrong_keys: WrongKeyThrottle::default(),
            refused: RefusedLogins::default(),
        })
    }

    /// Refuses the callers of tenants that were removed.
    pub fn with_documents(mut self, documents: Arc<DocumentCache>) -> Self {
        self.documents = Some(documents);
        self
    }

    /// The caller with this key. Without a key: the open tenant if no key exists anywhere, else `unauthorized`.
    #[cfg(any(test, feature = "internals"))]
    pub async fn authenticate(&self, bearer: Option<&str>) -> Result<Caller, Fault> {
        self.authenticate_pass(&Pass::of(bearer), None, || Ok(())).await
    }

    /// The same for a request from this address. Answers to wrong keys are throttled; `count` first counts the failure for
    /// the address.
    pub async fn authenticate_pass(
        &self,
        pass: &Pass,
        from: Option<IpAddr>,
        count: impl FnOnce() -> Result<(), Fault>,
    ) -> Result<Caller, Fault> {
        let refusal = match self.admit(pass).await {
            Ok(caller) => return Ok(caller),
            Err(refusal) => refusal,
        };
        if refusal.fault.code != Code::Unauthorized {
            return Err(refusal.fault);
        }
        let Refusal { fault, cause } = refusal;
        // Sessions are not logins: pages keep sending expired ones for a while, so they are not in the audit.
        if let (Credential::Key(_) | Credential::Token(_), Some((cause, tenant))) = (&pass.0, cause) {
            self.count_refused(cause, tenant);
        }
        match &pass.0 {
            // A signature cannot be guessed, but failures from one address are limited all the same.
            Credential::Token(token) if self.issuers.may_be_token(token) => {
                count()?;
                metrics::counter!("pes_auth_failures_total", "reason" => "refused").increment(1);
                Err(fault)
            }
            Credential::Key(_) | Credential::Token(_) => {
                count().inspect_err(|_| {
                    metrics::counter!("pes_auth_failures_total", "reason" => "slowed").increment(1);
                })?;
                Err(self.wrong_keys.throttled(fault, from).await)
            }
            // A session cannot be guessed, and pages keep sending expired ones for a while.
            Credential::None | Credential::Session(_) => {
                metrics::counter!("pes_auth_failures_total", "reason" => "missing").increment(1);
                Err(fault)
            }
        }
    }

    /// The caller with these credentials, as of now.
    pub(super) async fn admit(&self, pass: &Pass) -> Result<Caller, Refusal> {
        let caller = match &pass.0 {
            Credential::None => self.local_if_open(|| no_key().into()).await?,
            Credential::Key(key) => self.admit_key(key).await?.1,
            Credential::Token(token) => self.admit_token(token).await?,
            Credential::Session(session) => self.admit_session(session).await?,
        };
        if self.is_removed(caller.tenant) {
            return Err(Fault::new(Code::Unauthorized, removed(&caller.tenant_name)).into());
        }
        Ok(caller)
    }

    pub(super) fn is_removed(&self, tenant: TenantPk) -> bool {
        self.documents.as_ref().is_some_and(|documents| documents.is_removed(tenant))
    }

    async fn admit_session(&self, session: &str) -> Result<Caller, Refusal> {
        let cache_key = format!("session {session}");
        if let Some((_, caller)) = self.cached_caller(&cache_key) {
            return Ok(caller);
        }
        let now = Instant::now();
        let (read_at, caller) = match self.holder(session).await? {
            // A session does not extend the time for which its key's data is cached.
            Some(SessionHolder::Key(key)) => self.admit_key(&key).await?,
            Some(SessionHolder::Person(person)) => (now, self.caller_of(person).await?),
            None => return self.local_if_open(|| session_expired().into()).await,
        };
        Ok(self.cache_caller(&cache_key, caller, read_at.min(now)))
    }

    /// If no key is needed, every caller is accepted.
    async fn local_if_open(&self, refusal: fn() -> Refusal) -> Result<Caller, Refusal> {
        if self.is_open().await? { Ok(self.local()) } else { Err(refusal()) }
    }

    /// The caller with this key, and the time as of which that is known.
    pub(super) async fn admit_key(&self, hash: &str) -> Result<(Instant, Caller), Refusal> {
        let now = Instant::now();
        if let Some(caller) = self.configured(hash) {
            return Ok((now, caller.clone()));
        }
        if let Some(known) = self.cached_caller(hash) {
            return Ok(known);
        }
        let Some(row) = self.store.key_by_hash(hash).await.map_err(unavailable)? else {
            // On an open server any key is accepted, because many programs always send one.
            let unknown = || Refusal { fault: unknown_key(), cause: Some((RefusalCause::UnknownKey, None)) };
            return Ok((now, self.local_if_open(unknown).await?));
        };
        if let Some(cause) = ledger::refusal_cause(&row, hash, (self.now)()) {
            return Err(Refusal { fault: unknown_key(), cause: Some((cause, Some(row.tenant))) });
        }
        self.touch(&row).await;
        Ok((now, self.cache_caller(hash, caller(row), now)))
    }

    /// Stores the key's use, at most hourly; the first is also audited. A failed write does not refuse the caller.
    async fn touch(&self, key: &KeyRow) {
        let now = (self.now)();
        let since = now - TOUCH_INTERVAL;
        let first = key.used_at.is_none().then(|| ledger::audit_line(key, "use key", &key.name, now));
        if key.used_at.is_none_or(|at| at <= since)
            && let Err(error) = self.store.touch_key(&key.key_id, now, since, first).await
        {
            tracing::debug!(%error, keyId = key.key_id, "the use of a key was not written down");
        }
    }

    /// Whether callers need no key: none is configured and none was ever created.
    pub async fn is_open(&self) -> Result<bool, Fault> {
        if self.is_locked.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let open_checked_at = *self.open_checked_at.lock();
        if open_checked_at.is_some_and(|at| at.elapsed() < CACHE_TTL) {
            return Ok(true);
        }
        let unanswered_at = *self.unanswered_at.lock();
        if unanswered_at.is_some_and(|at| at.elapsed() < UNANSWERED_TTL) {
            return Err(unanswered());
        }
        let now = Instant::now();
        let exists = self.store.has_keys().await.map_err(|error| {
            *self.unanswered_at.lock() = Some(Instant::now());
            unavailable(error)
        })?;
        self.is_locked.fetch_or(exists, Ordering::Relaxed);
        *self.open_checked_at.lock() = Some(now);
        Ok(!exists)
    }

    fn local(&self) -> Caller {
        Caller {
            tenant: self.open_tenant,
            tenant_name: OPEN_TENANT.to_owned(),
            name: LOCAL.to_owned(),
            scopes: Scope::ALL.to_vec(),
            groups: Vec::new(),
        }
    }

    /// Requires a key or a token from now on.
    pub(super) fn lock(&self) {
        self.is_locked.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_configured(&self, hash: &str) -> bool {
        self.configured(hash).is_some()
    }

    /// Compares with every configured key, so that the time does not reveal which one is similar.
    fn configured(&self, hash: &str) -> Option<&Caller> {
        let mut found = None;
        for (configured, caller) in &self.configured {
            if equals(configured, hash) {
                found = Some(caller);
            }
        }
        found
    }

    /// Clears the cache, so that every caller is looked up again.
    pub(super) fn clear_cached_callers(&self) {
        self.cached_callers.lock().clear();
    }

    fn cached_caller(&self, hash: &str) -> Option<(Instant, Caller)> {
        self.cached_callers.lock().get(hash).filter(|(at, _)| at.elapsed() < CACHE_TTL).cloned()
    }

    fn cache_caller(&self, hash: &str, caller: Caller, read_at: Instant) -> Caller {
        let mut known = self.cached_callers.lock();
        if known.len() >= MAX_CACHED {
            known.clear();
        }
        known.insert(hash.to_owned(), (read_at, caller.clone()));
        caller
    }
}

/// The name of a configured key without a name; the same on every replica.
fn derived_name(hash: &str) -> String {
    format!("configured-{}", &hash[..12])
}

fn caller(row: KeyRow) -> Caller {
    let scopes = ledger::scopes(&row);
    Caller { tenant: row.tenant, tenant_name: row.tenant_name, name: row.name, scopes, groups: Vec::new() }
}

fn no_key() -> Fault {
    Fault::new(Code::Unauthorized, "Send a key: `Authorization: Bearer pes_…`.")
}

fn unknown_key() -> Fault {
    Fault::new(Code::Unauthorized, "This key is not known, was revoked or has expired.")
}

pub(super) fn removed(tenant: &str) -> String {
    format!("The tenant `{tenant}` was removed; only the operator can open it again.")
}

fn session_expired() -> Fault {
    Fault::new(Code::Unauthorized, "This session is over; sign in again.")
}

pub(super) fn unavailable(error: store::Error) -> Fault {
    tracing::warn!(%error, "keys cannot be read");
    unanswered()
}

fn unanswered() -> Fault {
    Fault::new(Code::StoreUnavailable, "The store does not answer, so keys cannot be checked; try again.")
}
