//! Room for request bodies: what all requests together may have of them in memory.

use tokio::sync::{Semaphore, SemaphorePermit};

/// Of long bodies that arrive, or have arrived and are not parsed yet.
pub(super) static ARRIVED: Room = Room::of(256 << 10);
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
        let kib = u32::try_from(bytes >> 10).unwrap_or(self.kib).clamp(1, self.kib);
        self.places.acquire_many(kib).await.expect("it is never closed")
    }
}
