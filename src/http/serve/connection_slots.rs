//! The places for connections.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Few are left when less than this part of them is free.
const FEW: usize = 4;

#[derive(Clone)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    few: usize,
}

impl Places {
    pub(super) fn new(count: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(count)), few: (count / FEW).max(1) }
    }

    /// `None`: all are taken.
    pub(super) fn take(&self) -> Option<OwnedSemaphorePermit> {
        self.free.clone().try_acquire_owned().ok()
    }

    pub(super) fn are_few(&self) -> bool {
        self.free.available_permits() < self.few
    }
}
