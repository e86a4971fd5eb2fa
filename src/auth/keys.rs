//! Authentication: from a bearer token to the caller.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use secrecy::ExposeSecret;
use tokio::time::Instant;

use super::ledger::{self, ApiKey, Issued, KeyRotation, NewKey, Rotated, overlaps, same};
use super::mint::hash;
use super::oidc::{self, Issuers, Logins};
use super::refused_logins::{Cause, Refusal, RefusedLogins, told_of_strangers};
use super::sessions::Holder;
use super::wrong_key_throttle::WrongKeyThrottle;
use crate::config::Auth;
use crate::domain::Millis;
use crate::domain::caller::{Caller, LOCAL, Scope};
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::TenantPk;
use crate::store::{self, KeyRow, Store};

/// The tenant of a server without keys.
pub const OPEN_TENANT: &str = "default";

/// How long an answer of the store is believed.
pub(super) const FRESH: Duration = Duration::from_millis(1500);

/// How long an open stream may be held up by a look at its caller's pass.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);

/// How often the key of an open stream is checked again: with [`FRESH`], a revoked key has nothing left after five
/// seconds.
pub const LOOK_AGAIN: Duration = Duration::from_secs(3);

/// What a caller showed, to be looked at again.
#[derive(Clone)]
pub struct Pass(pub(super) Shown);

/// Keys and sessions by their hashes.
#[derive(Clone)]
pub(super) enum Shown {
    Nothing,
    Key(String),
    /// What has the form of a token, as it is.
    Token(Arc<str>),
    Session(String),
}

impl Pass {
    pub fn of(bearer: Option<&str>) -> Self {
        Self(match bearer {
            None => Shown::Nothing,
            Some(bearer) if oidc::is_token(bearer) => Shown::Token(bearer.into()),
            Some(key) => Shown::Key(hash(key)),
        })
    }

    /// What a browser holds of its session.
    pub fn of_session(token: &str) -> Self {
        Self(Shown::Session(hash(token)))
    }
}

/// Tells the time of the process.
pub type Now = Arc<dyn Fn() -> Millis + Send + Sync>;

/// How often it is written down that a key is used.
const TOUCH_EVERY: Millis = 3_600_000;

/// Answers kept at most; guessing keys must not fill the memory, so only good ones are kept.
pub(super) const KEPT: usize = 10_000;

/// All keys that count: the configured ones and those in the store.
pub struct Keys {
    configured: Vec<(String, Caller)>,
    open_tenant: TenantPk,
    pub(super) store: Arc<dyn Store>,
    pub(super) now: Now,
    pub(super) issuers: Issuers,
    /// `None`: nobody signs in at an issuer.
    pub(super) logins: Option<Logins>,
    /// Those that people of issuers belong to, by name.
    pub(super) tenants: Mutex<HashMap<String, (Instant, TenantPk)>>,
    /// Callers, and when they were read from the store. They are found by the hash of their key, or by `session ` and that of their
    /// session.
    known: Mutex<HashMap<String, (Instant, Caller)>>,
    /// Whether the store ever held a key. Once seen it stays so: revoking the last key does not open the server.
    is_locked: AtomicBool,
    looked_at: Mutex<Option<Instant>>,
    wrong_keys: WrongKeyThrottle,
    pub(super) refused: RefusedLogins,
    /// The tenants whose audit tells of refused logins if the key or token that was shown belongs to no tenant.
    pub(super) strangers: Vec<TenantPk>,
}

impl Keys {
    /// Reads which tenants the configured keys belong to.
    pub async fn open(auth: &Auth, store: Arc<dyn Store>, now: Now) -> store::Result<Self> {
        let mut configured = Vec::new();
        for key in &auth.keys {
            let hash = hash(key.key.expose_secret());
            let caller = Caller {
                tenant: store.tenant(&key.tenant, now()).await?,
                tenant_name: key.tenant.clone(),
                name: key.name.clone().unwrap_or_else(|| derived(&hash)),
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
            strangers: told_of_strangers(&configured, open_tenant),
            configured,
            open_tenant,
            store,
            now,
            issuers: Issuers::default(),
            logins: None,
            tenants: Mutex::default(),
            known: Mutex::new(HashMap::new()),
            looked_at: Mutex::new(None),
            wrong_keys: WrongKeyThrottle::default(),
            refused: RefusedLogins::default(),
        })
    }

    /// Who calls with this key. Without one: the open tenant, if no key exists anywhere; else `unauthorized`.
    pub async fn authenticate(&self, bearer: Option<&str>) -> Result<Caller, Fault> {
        self.let_in(&Pass::of(bearer), || Ok(())).await
    }

    /// The same for a request: many wrong keys are answered slowly, each after `count` has counted it where it came from.
    pub async fn let_in(&self, pass: &Pass, count: impl FnOnce() -> Result<(), Fault>) -> Result<Caller, Fault> {
        let refusal = match self.admit(pass).await {
            Ok(caller) => return Ok(caller),
            Err(refusal) => refusal,
        };
        if refusal.fault.code != Code::Unauthorized {
            return Err(refusal.fault);
        }
        let Refusal { fault, cause } = refusal;
        // Nobody signs in with a session: those that are over go on asking for a while.
        if let (Shown::Key(_) | Shown::Token(_), Some((cause, tenant))) = (&pass.0, cause) {
            self.count_refused(cause, tenant);
        }
        match &pass.0 {
            // Nobody guesses a signature either, but all that come from one address can be bounded.
            Shown::Token(token) if self.issuers.concern(token) => {
                count()?;
                metrics::counter!("pes_auth_failures_total", "reason" => "refused").increment(1);
                Err(fault)
            }
            Shown::Key(_) | Shown::Token(_) => {
                count().inspect_err(|_| {
                    metrics::counter!("pes_auth_failures_total", "reason" => "slowed").increment(1);
                })?;
                Err(self.wrong_keys.throttled(fault).await)
            }
            // Nobody guesses a session, and those that are over go on asking for a while.
            Shown::Nothing | Shown::Session(_) => {
                metrics::counter!("pes_auth_failures_total", "reason" => "missing").increment(1);
                Err(fault)
            }
        }
    }

    /// Who was let in with this, as it stands now.
    pub(super) async fn admit(&self, pass: &Pass) -> Result<Caller, Refusal> {
        match &pass.0 {
            Shown::Nothing => self.local_if_open(|| missing().into()).await,
            Shown::Key(key) => Ok(self.admit_key(key).await?.1),
            Shown::Token(token) => self.admit_token(token).await,
            Shown::Session(session) => self.admit_session(session).await,
        }
    }

    async fn admit_session(&self, session: &str) -> Result<Caller, Refusal> {
        let known = format!("session {session}");
        if let Some((_, caller)) = self.remembered(&known) {
            return Ok(caller);
        }
        let now = Instant::now();
        let (read_at, caller) = match self.holder(session).await? {
            // What is known of the key is believed for no longer because a session names it.
            Some(Holder::Key(key)) => self.admit_key(&key).await?,
            Some(Holder::Person(person)) => (now, self.caller_of(person).await?),
            None => return self.local_if_open(|| over().into()).await,
        };
        Ok(self.remember(&known, caller, read_at.min(now)))
    }

    /// Where no key is needed everybody is let in.
    async fn local_if_open(&self, refusal: fn() -> Refusal) -> Result<Caller, Refusal> {
        if self.is_open().await? { Ok(self.local()) } else { Err(refusal()) }
    }

    /// Whose key this is, and as of when that is known.
    pub(super) async fn admit_key(&self, hash: &str) -> Result<(Instant, Caller), Refusal> {
        let now = Instant::now();
        if let Some(caller) = self.configured(hash) {
            return Ok((now, caller));
        }
        if let Some(known) = self.remembered(hash) {
            return Ok(known);
        }
        let Some(row) = self.store.key_by_hash(hash).await.map_err(unavailable)? else {
            // Whoever may call without a key may call with one: programs made for keys always send some.
            let unknown = || Refusal { fault: refused(), cause: Some((Cause::UnknownKey, None)) };
            return Ok((now, self.local_if_open(unknown).await?));
        };
        if let Some(cause) = ledger::refused_as(&row, hash, (self.now)()) {
            return Err(Refusal { fault: refused(), cause: Some((cause, Some(row.tenant))) });
        }
        self.touch(&row).await;
        Ok((now, self.remember(hash, caller(row), now)))
    }

    /// Writes down that the key is used, if that was not done within the hour; the first time also in the audit. It lets its holder in all the same where
    /// that cannot be written.
    async fn touch(&self, key: &KeyRow) {
        let now = (self.now)();
        let since = now - TOUCH_EVERY;
        let first = key.used_at.is_none().then(|| ledger::line(key, "use key", &key.name, now));
        if key.used_at.is_none_or(|at| at <= since)
            && let Err(error) = self.store.touch_key(&key.key_id, now, since, first).await
        {
            tracing::debug!(%error, keyId = key.key_id, "the use of a key was not written down");
        }
    }

    /// Whether everybody who reaches this server may call: no key is configured and none was ever made.
    pub async fn is_open(&self) -> Result<bool, Fault> {
        if self.is_locked.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let looked_at = *self.looked_at.lock();
        if looked_at.is_some_and(|at| at.elapsed() < FRESH) {
            return Ok(true);
        }
        let now = Instant::now();
        let exists = self.store.has_keys().await.map_err(unavailable)?;
        self.is_locked.fetch_or(exists, Ordering::Relaxed);
        *self.looked_at.lock() = Some(now);
        Ok(!exists)
    }

    /// Makes a key for the caller's own tenant; on an open server, whose caller is the operator, for any.
    pub async fn issue(&self, caller: &Caller, new: &NewKey) -> Result<Issued, Fault> {
        new.check((self.now)())?;
        if new.tenant != caller.tenant_name && !self.is_open().await? {
            let detail = format!("This key may make keys of the tenant `{}` only.", caller.tenant_name);
            return Err(Fault::new(Code::Forbidden, detail));
        }
        let mut others = self.configured.iter().map(|(_, other)| (&other.tenant_name, &other.name));
        if others.any(|other| other == (&new.tenant, &new.name)) {
            return Err(taken(&new.name));
        }
        let issued = ledger::issue(&*self.store, new, &caller.name, (self.now)()).await.map_err(unavailable)?;
        let issued = issued.ok_or_else(|| taken(&new.name))?;
        self.is_locked.store(true, Ordering::Relaxed);
        Ok(issued)
    }

    /// The stored keys of the caller's tenant.
    pub async fn list(&self, caller: &Caller) -> Result<Vec<ApiKey>, Fault> {
        ledger::list_of(&*self.store, caller.tenant).await.map_err(unavailable)
    }

    async fn is_own(&self, caller: &Caller, key_id: &str) -> Result<bool, Fault> {
        let found = self.store.key(key_id).await.map_err(unavailable)?;
        Ok(found.is_some_and(|key| key.tenant == caller.tenant))
    }

    /// Revokes a stored key of the caller's tenant.
    pub async fn revoke(&self, caller: &Caller, key_id: &str) -> Result<(), Fault> {
        let by = &caller.name;
        if self.is_own(caller, key_id).await?
            && ledger::revoke(&*self.store, key_id, by, (self.now)()).await.map_err(unavailable)?
        {
            self.forget_callers();
            return Ok(());
        }
        Err(Fault::not_found("active key"))
    }

    /// Makes another key in the place of a stored one of the caller's tenant. The old one counts until the overlap is over.
    pub async fn rotate(&self, caller: &Caller, key_id: &str, how: &KeyRotation) -> Result<Issued, Fault> {
        let now = (self.now)();
        how.check(now)?;
        if !self.is_own(caller, key_id).await? {
            return Err(Fault::not_found("active key"));
        }
        match ledger::rotate(&*self.store, key_id, how, &caller.name, now).await.map_err(unavailable)? {
            Rotated::Made(issued) => {
                self.forget_callers();
                Ok(issued)
            }
            Rotated::NoKey => Err(Fault::not_found("active key")),
            Rotated::Overlaps(until) => Err(overlaps(until)),
        }
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

    /// From now on nobody is let in without a key or a token.
    pub(super) fn lock(&self) {
        self.is_locked.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_configured(&self, hash: &str) -> bool {
        self.configured(hash).is_some()
    }

    /// Compares with every configured key, so that time tells nothing about which one is near.
    fn configured(&self, hash: &str) -> Option<Caller> {
        let mut found = None;
        for (configured, caller) in &self.configured {
            if same(configured, hash) {
                found = Some(caller.clone());
            }
        }
        found
    }

    /// Whoever comes next is looked up again.
    pub(super) fn forget_callers(&self) {
        self.known.lock().clear();
    }

    fn remembered(&self, hash: &str) -> Option<(Instant, Caller)> {
        self.known.lock().get(hash).filter(|(at, _)| at.elapsed() < FRESH).cloned()
    }

    fn remember(&self, hash: &str, caller: Caller, read_at: Instant) -> Caller {
        let mut known = self.known.lock();
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(hash.to_owned(), (read_at, caller.clone()));
        caller
    }
}

/// The name of a configured key that was given none: the same wherever it stands.
fn derived(hash: &str) -> String {
    format!("configured-{}", &hash[..12])
}

/// A name says who decided, also when its key is long revoked.
pub(crate) fn taken(name: &str) -> Fault {
    let detail = format!("`{name}` is or was the name of a key of this tenant, and stands in its audit; take another.");
    Fault::new(Code::KeyExists, detail).at("/name", "is taken")
}

fn caller(row: KeyRow) -> Caller {
    let scopes = ledger::scopes(&row);
    Caller { tenant: row.tenant, tenant_name: row.tenant_name, name: row.name, scopes, groups: Vec::new() }
}

fn missing() -> Fault {
    Fault::new(Code::Unauthorized, "Send a key: `Authorization: Bearer pes_…`; `pes keys new` makes one.")
}

fn refused() -> Fault {
    Fault::new(Code::Unauthorized, "This key is not known, was revoked or has expired; `pes keys new` makes another.")
}

fn over() -> Fault {
    Fault::new(Code::Unauthorized, "This session is over; sign in again.")
}

pub(super) fn unavailable(error: store::Error) -> Fault {
    tracing::warn!(%error, "keys cannot be read");
    Fault::new(Code::StoreUnavailable, "The store does not answer, so keys cannot be checked; try again.")
}
