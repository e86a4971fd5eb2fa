//! Places at a provider: so many calls at once, of one provider, key and tenant; a bounded number waits.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::Asker;
use crate::config;
use crate::domain::ids::TenantPk;

/// The places of one provider.
pub(super) struct Places {
    all: Arc<Semaphore>,
    most: usize,
    queue: usize,
    patience: Duration,
    waiting: AtomicUsize,
    keys: Lanes<Option<TenantPk>>,
    tenants: Lanes<TenantPk>,
}

/// A place taken; dropping it gives it back.
pub(super) struct Place {
    _permits: [OwnedSemaphorePermit; 3],
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crowded {
    QueueFull,
    TooLate,
}

impl Places {
    pub(super) fn new(gate: &config::Gate) -> Self {
        Self {
            all: Arc::new(Semaphore::new(gate.per_provider)),
            most: gate.per_provider,
            queue: gate.queue,
            patience: Duration::from_millis(gate.queue_ms),
            waiting: AtomicUsize::new(0),
            keys: Lanes::new(gate.per_key),
            tenants: Lanes::new(gate.per_tenant),
        }
    }

    /// Waits for its turn, first come first served within each lane. Who waits for its tenant or its key holds no place
    /// of the provider.
    pub(super) async fn take(&self, asker: Asker) -> Result<Place, Crowded> {
        let key = asker.has_own_key.then_some(asker.tenant);
        let lanes = [self.tenants.of(asker.tenant), self.keys.of(key), self.all.clone()];
        if let Some(place) = at_once(&lanes) {
            return Ok(place);
        }
        let _waiting = Waiting::join(self)?;
        let [tenant, key, all] = lanes;
        let turn = async {
            let closed = "no lane is ever closed";
            let tenant = tenant.acquire_owned().await.expect(closed);
            let key = key.acquire_owned().await.expect(closed);
            Place { _permits: [tenant, key, all.acquire_owned().await.expect(closed)] }
        };
        timeout(self.patience, turn).await.map_err(|_| Crowded::TooLate)
    }

    /// Whether a call would be served or may wait.
    pub(super) fn has_room(&self) -> bool {
        self.all.available_permits() > 0 || self.waiting() < self.queue
    }

    pub(super) fn running(&self) -> usize {
        self.most - self.all.available_permits()
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

/// A semaphore is fair: none is taken here while others wait for it.
fn at_once(lanes: &[Arc<Semaphore>; 3]) -> Option<Place> {
    let [tenant, key, all] = lanes.each_ref().map(|lane| lane.clone().try_acquire_owned().ok());
    Some(Place { _permits: [tenant?, key?, all?] })
}

struct Waiting<'a>(&'a Places);

impl<'a> Waiting<'a> {
    fn join(places: &'a Places) -> Result<Self, Crowded> {
        let joined =
            places.waiting.try_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < places.queue).then_some(n + 1));
        joined.map(|_| Self(places)).map_err(|_| Crowded::QueueFull)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A semaphore for each who asks; those that nobody uses are forgotten.
struct Lanes<K> {
    width: usize,
    lanes: Mutex<HashMap<K, Arc<Semaphore>>>,
}

/// How many lanes may lie idle before they are looked through.
const IDLE_LANES: usize = 1_024;

impl<K: std::hash::Hash + Eq> Lanes<K> {
    fn new(width: usize) -> Self {
        Self { width, lanes: Mutex::default() }
    }

    fn of(&self, key: K) -> Arc<Semaphore> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if lanes.len() >= IDLE_LANES {
            // A permit holds its semaphore: one that only this map holds is idle.
            lanes.retain(|_, lane| Arc::strong_count(lane) > 1);
        }
        lanes.entry(key).or_insert_with(|| Arc::new(Semaphore::new(self.width))).clone()
    }
}
