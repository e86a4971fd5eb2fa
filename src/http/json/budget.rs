//! Memory budgets for request bodies: one for all requests together, of which each tenant has a limited share.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use crate::domain::ids::TenantPk;

/// For long bodies that are arriving, or have arrived and are not parsed yet.
pub(super) static ARRIVING: TenantBudget = TenantBudget::of(256 << 10);
/// For bodies in the parser. Parsed values need many times the memory of their text.
pub(super) static PARSING: MemoryBudget = MemoryBudget::of(64 << 10);

pub(super) struct MemoryBudget {
    kib: u32,
    free_kib: Semaphore,
}

impl MemoryBudget {
    pub(super) const fn of(kib: u32) -> Self {
        Self { kib, free_kib: Semaphore::const_new(kib as usize) }
    }

    /// Waits until this many bytes are free. A request for more than the whole budget waits until it has all of it.
    pub(super) async fn reserve(&'static self, bytes: usize) -> SemaphorePermit<'static> {
        self.free_kib.acquire_many(kib(bytes, self.kib)).await.expect("it is never closed")
    }
}

/// A tenant's share is the budget divided by this. So the others always find some, however slowly one tenant's bodies
/// arrive.
const TENANT_PARTS: u32 = 4;

/// A budget of which each tenant can use only its share.
pub(super) struct TenantBudget {
    all: MemoryBudget,
    /// What is free of each tenant's share, for tenants that use some or wait for some. `None` stands for all unknown
    /// callers together.
    shares: Mutex<BTreeMap<Option<TenantPk>, Weak<Semaphore>>>,
}

/// A reservation in a tenant's share and in the whole budget, until it is dropped.
pub(super) struct TenantReservation {
    _share: OwnedSemaphorePermit,
    _memory: SemaphorePermit<'static>,
}

impl TenantBudget {
    pub(super) const fn of(kib: u32) -> Self {
        Self { all: MemoryBudget::of(kib), shares: Mutex::new(BTreeMap::new()) }
    }

    /// Waits until this many bytes are free, first in the tenant's share and then in the whole budget. So a request
    /// that waits for its tenant's share does not block other tenants.
    pub(super) async fn reserve(&'static self, tenant: Option<TenantPk>, bytes: usize) -> TenantReservation {
        let kib = kib(bytes, self.share_kib());
        let share = self.share(tenant).acquire_many_owned(kib).await.expect("it is never closed");
        TenantReservation { _share: share, _memory: self.all.reserve(bytes).await }
    }

    fn share(&self, tenant: Option<TenantPk>) -> Arc<Semaphore> {
        let mut shares = self.shares.lock();
        if let Some(share) = shares.get(&tenant).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Semaphore::new(usize::try_from(self.share_kib()).unwrap_or(Semaphore::MAX_PERMITS)));
        shares.insert(tenant, Arc::downgrade(&share));
        share
    }

    fn share_kib(&self) -> u32 {
        (self.all.kib / TENANT_PARTS).max(1)
    }
}

/// The KiB charged for this many bytes, at most `most`.
fn kib(bytes: usize, most: u32) -> u32 {
    u32::try_from(bytes >> 10).unwrap_or(most).clamp(1, most)
}
