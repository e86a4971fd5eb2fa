//! How many calls of all tenants may be in flight to one server.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

pub(super) const MAX_CALLS: usize = 1_000;

/// One permit for each call in flight.
#[derive(Debug)]
pub(super) struct CallPermits {
    pub(super) permits: Semaphore,
    /// How long a request of a call waits for one at most.
    pub(super) max_wait: Duration,
}

impl CallPermits {
    pub(super) fn new(max_wait: Duration) -> Self {
        Self { permits: Semaphore::new(MAX_CALLS), max_wait }
    }

    /// `None`: there was none until then.
    pub(super) async fn acquire(&self, until: Instant) -> Option<SemaphorePermit<'_>> {
        timeout_at(until, self.permits.acquire()).await.ok().and_then(Result::ok)
    }
}
