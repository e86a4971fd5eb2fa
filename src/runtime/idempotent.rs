//! One answer per `Idempotency-Key`: the stored one, or the one that is being made.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::Runtime;
use super::ask::Idempotent;
use super::shared::Shared;
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::TenantPk;
use crate::store::IdempotencyRow;

/// How long a concurrent duplicate waits for the first one's answer.
const PATIENCE: Duration = Duration::from_secs(2);

type Name = (TenantPk, String, String);

/// Requests with a key that are being answered in this process.
#[derive(Clone, Default)]
pub(super) struct Flights(Arc<Mutex<HashMap<Name, watch::Sender<()>>>>);

/// The right to answer under a key; dropping it lets duplicates look again.
pub(super) struct Flight {
    name: Name,
    all: Flights,
}

pub(super) enum Admission {
    /// Answer it, and hold this until the answer is durable.
    First(Option<Flight>),
    Stored(IdempotencyRow),
}

impl Runtime {
    /// Whether this very request was answered before. Another one under its key is refused.
    pub async fn is_repeat(&self, caller: &Caller, key: &Idempotent) -> Result<bool, Fault> {
        let row = self.0.store.idempotency(caller.tenant, &key.scope, &key.key).await?;
        Ok(row.map(|row| same_body(row, key)).transpose()?.is_some())
    }
}

impl Shared {
    /// Decides whether a request is to be answered or was answered before.
    pub(super) async fn admit(&self, caller: &Caller, key: Option<&Idempotent>) -> Result<Admission, Fault> {
        let Some(key) = key else { return Ok(Admission::First(None)) };
        let flight = self.flights.board(caller.tenant, key).await?;
        match self.store.idempotency(caller.tenant, &key.scope, &key.key).await? {
            Some(row) => Ok(Admission::Stored(same_body(row, key)?)),
            None => Ok(Admission::First(Some(flight))),
        }
    }

    /// The answer that another process stored while this one was deciding.
    pub(super) async fn stored(&self, caller: &Caller, key: Option<&Idempotent>) -> Result<IdempotencyRow, Fault> {
        let key = key.expect("only a commit that carries a key can be a duplicate");
        let row = self.store.idempotency(caller.tenant, &key.scope, &key.key).await?;
        same_body(row.ok_or_else(in_progress)?, key)
    }
}

impl Flights {
    async fn board(&self, tenant: TenantPk, key: &Idempotent) -> Result<Flight, Fault> {
        self.turn(tenant, &key.scope, &key.key, PATIENCE).await
    }

    /// Lets those of one name in one after another.
    pub(super) async fn turn(
        &self,
        tenant: TenantPk,
        scope: &str,
        key: &str,
        patience: Duration,
    ) -> Result<Flight, Fault> {
        let name = (tenant, scope.to_owned(), key.to_owned());
        let until = Instant::now() + patience;
        loop {
            let mut landed = match self.lock().entry(name.clone()) {
                std::collections::hash_map::Entry::Vacant(entry) => {
                    entry.insert(watch::channel(()).0);
                    return Ok(Flight { name, all: self.clone() });
                }
                std::collections::hash_map::Entry::Occupied(entry) => entry.get().subscribe(),
            };
            // Closed means landed: the sender is dropped with its flight.
            timeout_at(until, landed.changed()).await.map_err(|_| in_progress())?.ok();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, watch::Sender<()>>> {
        self.0.lock()
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.all.lock().remove(&self.name);
    }
}

fn same_body(row: IdempotencyRow, key: &Idempotent) -> Result<IdempotencyRow, Fault> {
    if row.fingerprint == key.fingerprint {
        return Ok(row);
    }
    Err(Fault::new(
        Code::IdempotencyMismatch,
        "This Idempotency-Key was used with another body; use a new key for a new request.",
    ))
}

fn in_progress() -> Fault {
    let mut fault = Fault::new(Code::RequestInProgress, "The same request is still being answered; repeat it.");
    fault.retry_after_ms = Some(1_000);
    fault
}
