//! Room for request bodies: what all requests together may have of them in memory, and a tenant's share of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use crate::domain::ids::TenantPk;

/// Of long bodies that arrive, or have arrived and are not parsed yet.
pub(super) static ARRIVED: SharedRoom = SharedRoom::of(256 << 10);
/// In the parser: values need many times the memory of their text.
pub(super) static PARSER: Room = Room::of(64 << 10);

pub(super) struct Room {
    kib: u32,
    places: Semaphore,
}

impl Room {
    pub(super) const fn of(kib: u32) -> Self {
        Self { kib, places: Semaphore::const_new(kib as usize) }
    }

    /// Waits until there is room for so many bytes beside those that have some; for more than there ever is: until nobody
    /// else has any.
    pub(super) async fn take(&'static self, bytes: usize) -> SemaphorePermit<'static> {
        self.places.acquire_many(kib(bytes, self.kib)).await.expect("it is never closed")
    }
}

/// One tenant has so much of a room: the others always find some, however slowly its bodies come.
const SHARES: u32 = 4;

/// A room of which each tenant has a share at most.
pub(super) struct SharedRoom {
    all: Room,
    /// What is left of the share of each tenant that has some of it or waits for some; `None`: of those that nobody knows.
    shares: Mutex<BTreeMap<Option<TenantPk>, Weak<Semaphore>>>,
}

/// What somebody has of a shared room, until this is dropped.
pub(super) struct Taken {
    _share: OwnedSemaphorePermit,
    _place: SemaphorePermit<'static>,
}

impl SharedRoom {
    pub(super) const fn of(kib: u32) -> Self {
        Self { all: Room::of(kib), shares: Mutex::new(BTreeMap::new()) }
    }

    /// Waits until there is room for so many bytes within the tenant's share, and then within the whole: whoever waits for
    /// its own tenant is in nobody else's way.
    pub(super) async fn take(&'static self, tenant: Option<TenantPk>, bytes: usize) -> Taken {
        let kib = kib(bytes, self.share_kib());
        let share = self.share(tenant).acquire_many_owned(kib).await.expect("it is never closed");
        Taken { _share: share, _place: self.all.take(bytes).await }
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
        (self.all.kib / SHARES).max(1)
    }
}

/// What so many bytes are charged where there are `most` KiB.
fn kib(bytes: usize, most: u32) -> u32 {
    u32::try_from(bytes >> 10).unwrap_or(most).clamp(1, most)
}
