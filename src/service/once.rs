//! `Idempotency-Key`: the same request, sent again, is answered again and done once.
//!
//! An answer is stored in the transaction of the change that it reports, so it is there if and only if that was done.
//! Those of one key wait for each other in this process; between processes the store says who was first.

use std::collections::HashMap;
use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::{Result, Service};
use crate::domain::Millis;
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::TenantPk;
use crate::runtime::CommandError;
use crate::store::IdempotencyRow;
use crate::store::documents::{ANSWER, SEALED, answer_id, owner_of_answer};

/// How long a concurrent duplicate waits for the first one's answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// A request's `Idempotency-Key`, where it was used, and what it was used with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotent {
    pub key: String,
    /// Method and path; keys of different tenants and scopes are strangers.
    pub scope: String,
    /// SHA-256 of the body, hex.
    pub fingerprint: String,
}

/// A fresh answer, or the stored one of an earlier request with the same key and body.
#[derive(Clone, Debug, PartialEq)]
pub enum Answered<T> {
    Fresh(T),
    Replayed { status: u16, body: String, location: Option<String> },
}

impl<T> Answered<T> {
    pub(crate) fn map<U>(self, fresh: impl FnOnce(T) -> U) -> Answered<U> {
        match self {
            Answered::Fresh(value) => Answered::Fresh(fresh(value)),
            Answered::Replayed { status, body, location } => Answered::Replayed { status, body, location },
        }
    }
}

impl<T: DeserializeOwned> Answered<T> {
    /// What is answered, read back if it was stored.
    pub(crate) fn into_value(self) -> Result<T> {
        match self {
            Answered::Fresh(value) => Ok(value),
            Answered::Replayed { body, .. } => serde_json::from_str(&body).map_err(damaged),
        }
    }
}

/// Of a stored answer that cannot be read back.
pub(crate) fn damaged(error: impl Display) -> Fault {
    Fault::new(Code::Internal, format!("The stored answer is damaged: {error}."))
}

impl Idempotent {
    /// The answer as it is stored under this key.
    pub(crate) fn row(
        &self,
        tenant: TenantPk,
        created_at: Millis,
        (status, body, location): (u16, String, Option<String>),
    ) -> IdempotencyRow {
        let Self { key, scope, fingerprint } = self.clone();
        IdempotencyRow { tenant, scope, key, fingerprint, status, body, location, created_at }
    }
}

/// Does `work`, unless the request was answered before under its key. `work` stores its answer under that key together
/// with what it does, and ends as [`CommandError::Duplicate`] where another process was faster.
pub(crate) async fn perform<T>(
    service: &Service,
    caller: &Caller,
    key: Option<&Idempotent>,
    work: impl Future<Output = std::result::Result<T, CommandError>>,
) -> Result<Answered<T>> {
    let Some(key) = key else { return Ok(Answered::Fresh(work.await?)) };
    let _turn = service.key_locks.turn(caller.tenant, &key.scope, &key.key, PATIENCE).await?;
    if let Some(row) = stored(service, caller, key).await? {
        return opened(service, row);
    }
    match work.await {
        Err(CommandError::Duplicate) => opened(service, stored(service, caller, key).await?.ok_or_else(in_progress)?),
        done => Ok(Answered::Fresh(done?)),
    }
}

/// Whether this very request was answered before. Another one under its key is refused.
pub async fn is_repeat(service: &Service, caller: &Caller, key: &Idempotent) -> Result<bool> {
    Ok(stored(service, caller, key).await?.is_some())
}

/// What this very request was answered before. Another one under its key is refused.
pub(crate) async fn answered<T>(service: &Service, caller: &Caller, key: &Idempotent) -> Result<Option<Answered<T>>> {
    stored(service, caller, key).await?.map(|row| opened(service, row)).transpose()
}

/// Whether some request was answered under this key, this one or another.
pub(crate) async fn is_stored(service: &Service, caller: &Caller, key: &Idempotent) -> Result<bool> {
    Ok(service.store.idempotency(caller.tenant, &key.scope, &key.key).await?.is_some())
}

async fn stored(service: &Service, caller: &Caller, key: &Idempotent) -> Result<Option<IdempotencyRow>> {
    let row = service.store.idempotency(caller.tenant, &key.scope, &key.key).await?;
    row.map(|row| same_body(row, key)).transpose()
}

/// An answer that may be the only place where a secret is ever shown: sealed, unless this server keeps no secrets.
pub(crate) fn sealed(
    service: &Service,
    caller: &Caller,
    key: &Idempotent,
    status: u16,
    shown: &impl Serialize,
) -> Result<IdempotencyRow> {
    let plain = serde_json::to_string(shown).map_err(|error| Fault::new(Code::Internal, error.to_string()))?;
    let owner = answer_id(&key.scope, &key.key);
    let body = if service.sealer.is_able() {
        service.sealer.seal(&plain, owner_of_answer(caller.tenant, &owner))?
    } else {
        plain
    };
    Ok(key.row(caller.tenant, service.now(), (status, body, None)))
}

fn opened<T>(service: &Service, row: IdempotencyRow) -> Result<Answered<T>> {
    let IdempotencyRow { tenant, scope, key, status, mut body, location, .. } = row;
    // What is not sealed is JSON, which begins otherwise.
    if body.starts_with(SEALED) {
        body = service.sealer.open(&body, owner_of_answer(tenant, &answer_id(&scope, &key))).map_err(|why| {
            why.warn(ANSWER, tenant, &scope);
            let detail = format!("What was answered to the first request of this key is not known any more: {why}.");
            Fault::new(Code::SecretUnreadable, detail)
        })?;
    }
    Ok(Answered::Replayed { status, body, location })
}

/// Whose key, what it is used for, and the key.
type Name = (TenantPk, String, String);

/// One lock for each key that this process is working on, so that requests with the same key run one after another.
#[derive(Clone, Default)]
pub(crate) struct KeyLocks(Arc<Mutex<HashMap<Name, watch::Sender<()>>>>);

/// A lock that is held; dropping it lets in whoever waits for it.
pub(crate) struct KeyGuard {
    name: Name,
    all: KeyLocks,
}

impl KeyLocks {
    /// Waits until nobody holds this key, at most so long, and holds it.
    pub(crate) async fn turn(&self, tenant: TenantPk, scope: &str, key: &str, patience: Duration) -> Result<KeyGuard> {
        let name = (tenant, scope.to_owned(), key.to_owned());
        let until = Instant::now() + patience;
        loop {
            let mut held = match self.0.lock().entry(name.clone()) {
                std::collections::hash_map::Entry::Vacant(entry) => {
                    entry.insert(watch::channel(()).0);
                    return Ok(KeyGuard { name, all: self.clone() });
                }
                std::collections::hash_map::Entry::Occupied(entry) => entry.get().subscribe(),
            };
            // It ends with an error when the holder drops its sender: then the key is free.
            timeout_at(until, held.changed()).await.map_err(|_| in_progress())?.ok();
        }
    }
}

impl Drop for KeyGuard {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.name);
    }
}

fn same_body(row: IdempotencyRow, key: &Idempotent) -> Result<IdempotencyRow> {
    if row.fingerprint == key.fingerprint {
        return Ok(row);
    }
    Err(Fault::new(
        Code::IdempotencyMismatch,
        "This Idempotency-Key was used with another body; use a new key for a new request.",
    ))
}

fn in_progress() -> Fault {
    Fault::new(Code::RequestInProgress, "The same request is still being answered; repeat it.").retry_after(1_000)
}
