//! Limits on concurrent calls: per provider, key and tenant. Calls without a permit wait. The length of the queue is
//! checked when runs are accepted; a call of an accepted run waits without a limit, unless it has an alternative.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::CallOwner;
use crate::config;
use crate::domain::ids::TenantPk;

/// The permits of one provider.
pub(super) struct CallPermits {
    all: Arc<Semaphore>,
    capacity: usize,
    queue_capacity: usize,
    max_wait: Duration,
    queue: Arc<WaitQueue>,
    keys: PermitGroups<Option<TenantPk>>,
    tenants: PermitGroups<TenantPk>,
}

/// The permits of one call; dropping it returns them.
pub(super) struct CallPermit {
    _permits: [OwnedSemaphorePermit; 3],
}

/// Why there is no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Saturation {
    QueueFull,
    TimedOut,
}

impl CallPermits {
    pub(super) fn new(gate: &config::Gate) -> Self {
        Self {
            all: Arc::new(Semaphore::new(gate.per_provider)),
            capacity: gate.per_provider,
            queue_capacity: gate.queue,
            max_wait: Duration::from_millis(gate.queue_ms),
            queue: Arc::default(),
            keys: PermitGroups::new(gate.per_key),
            tenants: PermitGroups::new(gate.per_tenant),
        }
    }

    /// Waits for permits, first come first served within each group. While it waits for its tenant or key, a call holds
    /// no permit of the provider.
    pub(super) async fn acquire(&self, owner: CallOwner) -> CallPermit {
        let groups = self.groups(owner);
        if let Some(permit) = try_acquire_all(&groups) {
            return permit;
        }
        let _entry = self.queue.enter_if(owner.tenant, false, |_| true);
        acquire_all(groups).await
    }

    /// The same for a call with an alternative: it waits only if the queue has room, and for a limited time.
    pub(super) async fn acquire_soon(&self, owner: CallOwner) -> Result<CallPermit, Saturation> {
        let groups = self.groups(owner);
        if let Some(permit) = try_acquire_all(&groups) {
            return Ok(permit);
        }
        let may_wait = |counts: &QueueCounts| counts.has_room(owner.tenant, self.queue_capacity);
        let Some(_entry) = self.queue.enter_if(owner.tenant, false, may_wait) else {
            return Err(Saturation::QueueFull);
        };
        timeout(self.max_wait, acquire_all(groups)).await.map_err(|_| Saturation::TimedOut)
    }

    /// Reserves room for the first call of a run that is about to be accepted; `None`: there is no permit for its
    /// tenant, its key or the provider, and it may not wait.
    pub(super) fn reserve(&self, owner: CallOwner) -> Option<QueueEntry> {
        let free = self.groups(owner).iter().map(|group| group.available_permits()).min().unwrap_or_default();
        self.queue.enter_if(owner.tenant, true, |counts| {
            free > counts.reserved || counts.has_room(owner.tenant, self.queue_capacity)
        })
    }

    pub(super) fn running(&self) -> usize {
        self.capacity - self.all.available_permits()
    }

    pub(super) fn waiting(&self) -> usize {
        let counts = self.queue.counts();
        counts.all - counts.reserved
    }

    fn groups(&self, owner: CallOwner) -> [Arc<Semaphore>; 3] {
        let key = owner.has_own_key.then_some(owner.tenant);
        [self.tenants.of(owner.tenant), self.keys.of(key), self.all.clone()]
    }
}

/// The semaphores are fair: this gets no permit while other calls wait.
fn try_acquire_all(groups: &[Arc<Semaphore>; 3]) -> Option<CallPermit> {
    let [tenant, key, all] = groups.each_ref().map(|group| group.clone().try_acquire_owned().ok());
    Some(CallPermit { _permits: [tenant?, key?, all?] })
}

async fn acquire_all([tenant, key, all]: [Arc<Semaphore>; 3]) -> CallPermit {
    let closed = "no group is ever closed";
    let tenant = tenant.acquire_owned().await.expect(closed);
    let key = key.acquire_owned().await.expect(closed);
    CallPermit { _permits: [tenant, key, all.acquire_owned().await.expect(closed)] }
}

/// The calls that wait for permits.
#[derive(Default)]
struct WaitQueue(Mutex<QueueCounts>);

#[derive(Default)]
struct QueueCounts {
    all: usize,
    /// Those of `all` that are reserved for runs that are being accepted; their calls will follow.
    reserved: usize,
    by_tenant: HashMap<TenantPk, usize>,
}

impl QueueCounts {
    /// A tenant may use at most as much of the queue as is left to others. So a single tenant gets half of it, and
    /// there is always room for a tenant that comes next.
    fn has_room(&self, tenant: TenantPk, queue_capacity: usize) -> bool {
        let of_tenant = self.by_tenant.get(&tenant).copied().unwrap_or_default();
        of_tenant < queue_capacity.saturating_sub(self.all)
    }
}

impl WaitQueue {
    fn counts(&self) -> MutexGuard<'_, QueueCounts> {
        self.0.lock()
    }

    fn enter_if(
        self: &Arc<Self>,
        tenant: TenantPk,
        is_reservation: bool,
        may_enter: impl FnOnce(&QueueCounts) -> bool,
    ) -> Option<QueueEntry> {
        let mut counts = self.counts();
        if !may_enter(&counts) {
            return None;
        }
        counts.all += 1;
        counts.reserved += usize::from(is_reservation);
        *counts.by_tenant.entry(tenant).or_default() += 1;
        Some(QueueEntry { queue: self.clone(), tenant, is_reservation })
    }
}

/// An entry in the queue; dropping it leaves the queue.
pub(super) struct QueueEntry {
    queue: Arc<WaitQueue>,
    tenant: TenantPk,
    is_reservation: bool,
}

impl Drop for QueueEntry {
    fn drop(&mut self) {
        let mut counts = self.queue.counts();
        counts.all -= 1;
        counts.reserved -= usize::from(self.is_reservation);
        if let Some(of_tenant) = counts.by_tenant.get_mut(&self.tenant) {
            *of_tenant -= 1;
            if *of_tenant == 0 {
                counts.by_tenant.remove(&self.tenant);
            }
        }
    }
}

/// One semaphore per key, created on demand; idle ones are removed.
struct PermitGroups<K> {
    permits_per_key: usize,
    groups: Mutex<HashMap<K, Arc<Semaphore>>>,
}

/// How many groups may exist before idle ones are removed.
const MAX_IDLE_GROUPS: usize = 1_024;

impl<K: std::hash::Hash + Eq> PermitGroups<K> {
    fn new(permits_per_key: usize) -> Self {
        Self { permits_per_key, groups: Mutex::default() }
    }

    fn of(&self, key: K) -> Arc<Semaphore> {
        let mut groups = self.groups.lock();
        if groups.len() >= MAX_IDLE_GROUPS {
            // A permit holds a reference to its semaphore, so a semaphore that only this map references is idle.
            groups.retain(|_, group| Arc::strong_count(group) > 1);
        }
        groups.entry(key).or_insert_with(|| Arc::new(Semaphore::new(self.permits_per_key))).clone()
    }
}
