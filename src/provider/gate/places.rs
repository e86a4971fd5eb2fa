//! Places at a provider: so many calls at once, of one provider, key and tenant. What has no place waits. How much may
//! wait is decided where runs are accepted; a call of an accepted run waits as long as it takes, unless it may go
//! elsewhere.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
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
    line: Arc<WaitingCalls>,
    keys: Groups<Option<TenantPk>>,
    tenants: Groups<TenantPk>,
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
            line: Arc::default(),
            keys: Groups::new(gate.per_key),
            tenants: Groups::new(gate.per_tenant),
        }
    }

    /// Waits for its turn, first come first served within each group. Who waits for its tenant or its key holds no place
    /// of the provider.
    pub(super) async fn take(&self, asker: Asker) -> Place {
        let groups = self.groups(asker);
        if let Some(place) = at_once(&groups) {
            return place;
        }
        let _waits = self.line.join_if(asker.tenant, false, |_| true);
        in_turn(groups).await
    }

    /// The same of a call that may go elsewhere: it waits only where there is room, and not for long.
    pub(super) async fn take_soon(&self, asker: Asker) -> Result<Place, Crowded> {
        let groups = self.groups(asker);
        if let Some(place) = at_once(&groups) {
            return Ok(place);
        }
        let may = |line: &Counts| line.has_room(asker.tenant, self.queue);
        let Some(_waits) = self.line.join_if(asker.tenant, false, may) else { return Err(Crowded::QueueFull) };
        timeout(self.patience, in_turn(groups)).await.map_err(|_| Crowded::TooLate)
    }

    /// Keeps room for the first call of a run that is about to be accepted; `None`: neither its tenant, its key nor the
    /// provider has a place, and it may not wait.
    pub(super) fn admit(&self, asker: Asker) -> Option<Waits> {
        let free = self.groups(asker).iter().map(|group| group.available_permits()).min().unwrap_or_default();
        self.line.join_if(asker.tenant, true, |line| free > line.announced || line.has_room(asker.tenant, self.queue))
    }

    pub(super) fn running(&self) -> usize {
        self.most - self.all.available_permits()
    }

    pub(super) fn waiting(&self) -> usize {
        let line = self.line.counts();
        line.all - line.announced
    }

    fn groups(&self, asker: Asker) -> [Arc<Semaphore>; 3] {
        let key = asker.has_own_key.then_some(asker.tenant);
        [self.tenants.of(asker.tenant), self.keys.of(key), self.all.clone()]
    }
}

/// A semaphore is fair: none is taken here while others wait for it.
fn at_once(groups: &[Arc<Semaphore>; 3]) -> Option<Place> {
    let [tenant, key, all] = groups.each_ref().map(|group| group.clone().try_acquire_owned().ok());
    Some(Place { _permits: [tenant?, key?, all?] })
}

async fn in_turn([tenant, key, all]: [Arc<Semaphore>; 3]) -> Place {
    let closed = "no group is ever closed";
    let tenant = tenant.acquire_owned().await.expect(closed);
    let key = key.acquire_owned().await.expect(closed);
    Place { _permits: [tenant, key, all.acquire_owned().await.expect(closed)] }
}

/// Who waits for a place.
#[derive(Default)]
struct WaitingCalls(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    all: usize,
    /// Of them, runs that are being accepted: their calls will come.
    announced: usize,
    by_tenant: HashMap<TenantPk, usize>,
}

impl Counts {
    /// A tenant may take as much of the queue as it leaves to others: half of it if it is alone, and whoever comes then
    /// finds room, however many wait.
    fn has_room(&self, tenant: TenantPk, queue: usize) -> bool {
        let of_tenant = self.by_tenant.get(&tenant).copied().unwrap_or_default();
        of_tenant < queue.saturating_sub(self.all)
    }
}

impl WaitingCalls {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock()
    }

    fn join_if(
        self: &Arc<Self>,
        tenant: TenantPk,
        is_announced: bool,
        may: impl FnOnce(&Counts) -> bool,
    ) -> Option<Waits> {
        let mut counts = self.counts();
        if !may(&counts) {
            return None;
        }
        counts.all += 1;
        counts.announced += usize::from(is_announced);
        *counts.by_tenant.entry(tenant).or_default() += 1;
        Some(Waits { line: self.clone(), tenant, is_announced })
    }
}

/// A place in the line; dropping it leaves it.
pub(super) struct Waits {
    line: Arc<WaitingCalls>,
    tenant: TenantPk,
    is_announced: bool,
}

impl Drop for Waits {
    fn drop(&mut self) {
        let mut counts = self.line.counts();
        counts.all -= 1;
        counts.announced -= usize::from(self.is_announced);
        if let Some(of_tenant) = counts.by_tenant.get_mut(&self.tenant) {
            *of_tenant -= 1;
            if *of_tenant == 0 {
                counts.by_tenant.remove(&self.tenant);
            }
        }
    }
}

/// A semaphore for each who asks; those that nobody uses are forgotten.
struct Groups<K> {
    width: usize,
    groups: Mutex<HashMap<K, Arc<Semaphore>>>,
}

/// How many idle groups are kept before they are looked through.
const IDLE_GROUPS: usize = 1_024;

impl<K: std::hash::Hash + Eq> Groups<K> {
    fn new(width: usize) -> Self {
        Self { width, groups: Mutex::default() }
    }

    fn of(&self, key: K) -> Arc<Semaphore> {
        let mut groups = self.groups.lock();
        if groups.len() >= IDLE_GROUPS {
            // A permit holds its semaphore: one that only this map holds is idle.
            groups.retain(|_, group| Arc::strong_count(group) > 1);
        }
        groups.entry(key).or_insert_with(|| Arc::new(Semaphore::new(self.width))).clone()
    }
}
