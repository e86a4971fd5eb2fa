//! `Idempotency-Key`: a request that is sent again gets the same response, and its work is done once.
//!
//! A response is stored in the transaction of the change that it reports, so it is stored if and only if the change was
//! made. Requests with one key wait for each other in this process. Between processes the store decides which was first.

use std::collections::HashMap;
use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::{Result, Service};
use crate::domain::Millis;
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::TenantPk;
use crate::runtime::CommandError;
use crate::store::IdempotencyRow;
use crate::store::documents::{RESPONSE, SEALED, owner_of_response, response_id};

/// How long a concurrent duplicate waits for the response to the first request.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// The `Idempotency-Key` of a request, its scope, and the fingerprint of the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotent {
    /// As the caller chose it.
    pub key: String,
    /// Method and path. Equal keys of different tenants or scopes are independent.
    pub scope: String,
    /// SHA-256 of the body, hex.
    pub fingerprint: String,
}

/// A fresh result, or the stored response to an earlier request with the same key and body.
#[derive(Clone, Debug, PartialEq)]
pub enum Answered<T> {
    /// The request was carried out just now.
    Fresh(T),
    /// An earlier request with this key was: this is its answer.
    Replayed(StoredResponse),
}

/// A response that is stored under an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResponse {
    /// The HTTP status.
    pub status: u16,
    /// JSON.
    pub body: String,
    /// The header `Location` of a 201.
    pub location: Option<String>,
}

impl<T> Answered<T> {
    pub(crate) fn map<U>(self, fresh: impl FnOnce(T) -> U) -> Answered<U> {
        match self {
            Answered::Fresh(value) => Answered::Fresh(fresh(value)),
            Answered::Replayed(stored) => Answered::Replayed(stored),
        }
    }
}

impl<T: DeserializeOwned> Answered<T> {
    /// The value of the response; parsed from the body if it was stored.
    pub(crate) fn into_value(self) -> Result<T> {
        match self {
            Answered::Fresh(value) => Ok(value),
            Answered::Replayed(stored) => serde_json::from_str(&stored.body).map_err(damaged),
        }
    }
}

/// The fault for a stored response that cannot be parsed.
pub(crate) fn damaged(error: impl Display) -> Fault {
    Fault::new(Code::Internal, format!("The stored answer is damaged: {error}."))
}

impl Idempotent {
    /// The row that stores a response under this key.
    pub(crate) fn row(&self, tenant: TenantPk, created_at: Millis, response: StoredResponse) -> IdempotencyRow {
        let StoredResponse { status, body, location } = response;
        let Self { key, scope, fingerprint } = self.clone();
        IdempotencyRow { tenant, scope, key, fingerprint, status, body, location, created_at }
    }
}

/// Performs `work`, unless a response is stored under the request's key. `work` stores its response under that key in the
/// transaction of its change, and returns [`CommandError::Duplicate`] if another process was faster. If `work` is refused
/// otherwise and a response is stored by then, another process has handled the same request: that response is returned.
pub(crate) async fn perform<T>(
    service: &Service,
    caller: &Caller,
    key: Option<&Idempotent>,
    work: impl Future<Output = std::result::Result<T, CommandError>>,
) -> Result<Answered<T>> {
    let Some(key) = key else { return Ok(Answered::Fresh(work.await?)) };
    let _guard = service.key_locks.lock(caller.tenant, &key.scope, &key.key, MAX_WAIT).await?;
    if let Some(row) = stored(service, caller, key).await? {
        return replayed(service, row);
    }
    match work.await {
        Err(CommandError::Duplicate) => replayed(service, stored(service, caller, key).await?.ok_or_else(in_progress)?),
        Err(refusal) => match stored(service, caller, key).await {
            Ok(Some(row)) => replayed(service, row),
            Err(fault) if fault.code == Code::IdempotencyMismatch => Err(fault),
            Ok(None) | Err(_) => Err(refusal.into()),
        },
        Ok(done) => Ok(Answered::Fresh(done)),
    }
}

/// Whether a response to this request is stored. A request with another body under the same key is refused.
pub async fn is_repeat(service: &Service, caller: &Caller, key: &Idempotent) -> Result<bool> {
    Ok(stored(service, caller, key).await?.is_some())
}

/// The stored response to this request, if there is one. A request with another body under the same key is refused.
pub(crate) async fn answered<T>(service: &Service, caller: &Caller, key: &Idempotent) -> Result<Option<Answered<T>>> {
    stored(service, caller, key).await?.map(|row| replayed(service, row)).transpose()
}

/// Whether any response is stored under this key, to this request or to one with another body.
pub(crate) async fn is_stored(service: &Service, caller: &Caller, key: &Idempotent) -> Result<bool> {
    Ok(service.store.idempotency(caller.tenant, &key.scope, &key.key).await?.is_some())
}

async fn stored(service: &Service, caller: &Caller, key: &Idempotent) -> Result<Option<IdempotencyRow>> {
    let row = service.store.idempotency(caller.tenant, &key.scope, &key.key).await?;
    row.map(|row| same_body(row, key)).transpose()
}

/// The row of a response that may show a secret for the only time: its body is sealed, if the server has a sealing key.
pub(crate) fn sealed(
    service: &Service,
    caller: &Caller,
    key: &Idempotent,
    status: u16,
    shown: &impl Serialize,
) -> Result<IdempotencyRow> {
    let plain = serde_json::to_string(shown).map_err(|error| Fault::new(Code::Internal, error.to_string()))?;
    let owner = response_id(&key.scope, &key.key);
    let body = if service.sealer.is_able() {
        service.sealer.seal(&plain, owner_of_response(caller.tenant, &owner))?
    } else {
        plain
    };
    Ok(key.row(caller.tenant, service.now(), StoredResponse { status, body, location: None }))
}

fn replayed<T>(service: &Service, row: IdempotencyRow) -> Result<Answered<T>> {
    let IdempotencyRow { tenant, scope, key, status, mut body, location, .. } = row;
    // A body that is not sealed is JSON, which cannot begin with this prefix.
    if body.starts_with(SEALED) {
        body = service.sealer.open(&body, owner_of_response(tenant, &response_id(&scope, &key))).map_err(|why| {
            why.warn(RESPONSE, tenant, &scope);
            let detail = format!("What was answered to the first request of this key is not known any more: {why}.");
            Fault::new(Code::SecretUnreadable, detail)
        })?;
    }
    Ok(Answered::Replayed(StoredResponse { status, body, location }))
}

/// Tenant, scope and idempotency key.
type LockKey = (TenantPk, String, String);

/// One lock for each key that this process is working on, so that requests with the same key run one after another, in the
/// order in which they came.
#[derive(Clone, Default)]
pub(crate) struct KeyLocks(Arc<Mutex<HashMap<LockKey, Arc<Semaphore>>>>);

/// A held lock. Dropping it releases the lock.
pub(crate) struct KeyGuard {
    key: LockKey,
    locks: KeyLocks,
    /// `None`: it is being dropped.
    lock: Option<Arc<Semaphore>>,
    /// `None`: it waits for the holder.
    held: Option<OwnedSemaphorePermit>,
}

impl KeyLocks {
    /// Acquires the lock of this key. Waits at most `max_wait` for its holder.
    pub(crate) async fn lock(&self, tenant: TenantPk, scope: &str, key: &str, max_wait: Duration) -> Result<KeyGuard> {
        let key = (tenant, scope.to_owned(), key.to_owned());
        let lock = self.0.lock().entry(key.clone()).or_insert_with(|| Arc::new(Semaphore::new(1))).clone();
        let mut guard = KeyGuard { key, locks: self.clone(), lock: Some(lock.clone()), held: None };
        let acquired = timeout(max_wait, lock.acquire_owned()).await.map_err(|_| in_progress())?;
        guard.held = Some(acquired.expect("it is never closed"));
        Ok(guard)
    }
}

impl Drop for KeyGuard {
    fn drop(&mut self) {
        self.held = None;
        let mut locks = self.locks.0.lock();
        // Under the lock of the map, so that of several guards the last one sees that only the map refers to it.
        self.lock = None;
        if locks.get(&self.key).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            locks.remove(&self.key);
        }
    }
}

fn same_body(row: IdempotencyRow, key: &Idempotent) -> Result<IdempotencyRow> {
    if row.fingerprint == key.fingerprint {
        return Ok(row);
    }
    Err(Fault::new(
        Code::IdempotencyMismatch,
        "This idempotency key was used for another request; use a new key for a new request.",
    ))
}

fn in_progress() -> Fault {
    Fault::new(Code::RequestInProgress, "The same request is still being answered; repeat it.").retry_after(1_000)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Otherwise many requests with one key would wake each other whenever one of them is answered.
    #[tokio::test(start_paused = true)]
    async fn a_lock_that_is_released_wakes_the_first_who_waits_and_is_forgotten_with_the_last() {
        let locks = KeyLocks::default();
        let lock = || Box::pin(locks.lock(TenantPk(1), "POST /threads", "k", MAX_WAIT));
        let held = lock().await.unwrap();
        assert_eq!(lock().await.err().unwrap().code, Code::RequestInProgress);
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let mut context = Context::from_waker(&waker);
        let mut waiting = [lock(), lock()];
        assert!(waiting.iter_mut().all(|waits| waits.as_mut().poll(&mut context).is_pending()));
        drop(held);
        assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
        let Poll::Ready(Ok(next)) = waiting[0].as_mut().poll(&mut context) else { panic!("it was its turn") };
        assert!(waiting[1].as_mut().poll(&mut context).is_pending());
        drop(next);
        assert_eq!(wakes.0.load(Ordering::SeqCst), 2);
        drop(waiting);
        assert!(locks.0.lock().is_empty());
    }
}
