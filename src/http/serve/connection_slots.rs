//! The connection slots.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Few slots are left if less than one in this many is free.
const SCARCE_PART: usize = 4;

#[derive(Clone)]
pub(super) struct ConnectionSlots {
    free: Arc<Semaphore>,
    scarce_below: usize,
}

impl ConnectionSlots {
    pub(super) fn new(count: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(count)), scarce_below: (count / SCARCE_PART).max(1) }
    }

    /// `None` if all are taken.
    pub(super) fn try_take(&self) -> Option<OwnedSemaphorePermit> {
        self.free.clone().try_acquire_owned().ok()
    }

    pub(super) fn are_scarce(&self) -> bool {
        self.free.available_permits() < self.scarce_below
    }
}
