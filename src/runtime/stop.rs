//! How the process stops: it drains, interrupts the model calls that still run, drops the rest, releases the leases and closes
//! the store.

use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Runtime;
use super::shared::Shared;
use crate::domain::fault::{Code, Fault};

/// The part of the drain time that is reserved for storing what interrupted model calls have used.
const INTERRUPT_TIMEOUT: Duration = Duration::from_millis(1_000);
/// The part of the drain time that is reserved for releasing the leases and for closing the store.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(1_500);
const CLOSE_TIMEOUT: Duration = Duration::from_millis(1_000);

/// The phases of the stop, in their order, and the tasks that the drain waits for. A phase that has begun does not end.
#[derive(Default)]
pub(super) struct StopPhases {
    /// Cancelled when the drain begins: nothing new starts, results of running effects are still committed.
    pub(super) draining: CancellationToken,
    /// Cancelled shortly before the drain ends: model calls are interrupted and report their usage so far.
    pub(super) out_of_time: CancellationToken,
    /// Cancelled when the drain ends: everything that still runs is dropped.
    pub(super) halted: CancellationToken,
    pub(super) tasks: TaskTracker,
}

impl StopPhases {
    pub(super) fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Refuses requests that start or change something once the server is stopping.
    pub(super) fn accepting(&self) -> Result<(), Fault> {
        if self.is_draining() { Err(stopping()) } else { Ok(()) }
    }
}

impl Runtime {
    /// Starts nothing new, and commits the results of running effects, for at most `runtime.drain_ms`. Then model calls are
    /// interrupted, and their usage so far is stored; what still runs after that is dropped. Subscribers get a notice first.
    /// `false`: it was called before.
    pub(crate) async fn stop(&self) -> bool {
        let Shared { stop, hub, config, .. } = &*self.0;
        if stop.halted.is_cancelled() {
            return false;
        }
        let limit = Duration::from_millis(config.runtime.drain_ms).saturating_sub(RELEASE_TIMEOUT + CLOSE_TIMEOUT);
        let interrupt_timeout = INTERRUPT_TIMEOUT.min(limit);
        stop.draining.cancel();
        hub.publish_draining(1_000);
        stop.tasks.close();
        if timeout(limit - interrupt_timeout, stop.tasks.wait()).await.is_err() {
            match self.active_threads() {
                0 => tracing::warn!(
                    tasks = stop.tasks.len(),
                    "background work that did not end in time, such as a delivery, is stopped"
                ),
                threads => tracing::warn!(threads, "steps that did not end in time are stopped"),
            }
            stop.out_of_time.cancel();
            // A tool that still runs is dropped.
            timeout(interrupt_timeout, stop.tasks.wait()).await.ok();
        }
        stop.halted.cancel();
        true
    }

    /// Drops everything that runs in this process. Nothing starts after it.
    pub(crate) fn halt(&self) {
        self.0.stop.draining.cancel();
        self.0.stop.halted.cancel();
    }

    /// Releases the leases. Called when nothing runs any more.
    pub(crate) async fn release_leases(&self) {
        let shared = &self.0;
        match timeout(RELEASE_TIMEOUT, shared.lease_keeper.end(&*shared.store)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the leases were not given back; they expire"),
            Err(_) => tracing::warn!("the leases were not given back in time; they expire"),
        }
    }

    /// Closes the store. Called after the leases are released.
    pub(crate) async fn close_store(&self) {
        if timeout(CLOSE_TIMEOUT, self.0.store.close()).await.is_err() {
            tracing::warn!("the store was not closed in time");
        }
    }
}

/// The fault of what a stop prevents.
pub(crate) fn stopping() -> Fault {
    Fault::new(Code::Draining, "The server is stopping; ask again in a moment.").retry_after(2_000)
}
