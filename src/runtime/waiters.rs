//! Who waits for a run: told when it moves, so that nobody asks the store again and again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::domain::ids::RunId;

/// Runs that somebody waits for; others take no memory.
#[derive(Default)]
pub(super) struct Waiters(Arc<Mutex<HashMap<RunId, watch::Sender<()>>>>);

/// A place among a run's waiters; dropping it leaves.
pub(super) struct Waiter {
    run: RunId,
    moved: watch::Receiver<()>,
    all: Waiters,
}

impl Waiters {
    /// Everything that happens to the run from now on is told. Read the run after this, not before.
    pub(super) fn join(&self, run: &RunId) -> Waiter {
        let mut waiting = self.lock();
        let moved = waiting.entry(run.clone()).or_insert_with(|| watch::channel(()).0).subscribe();
        Waiter { run: run.clone(), moved, all: Self(self.0.clone()) }
    }

    /// The run's resource changed, durably.
    pub(super) fn tell(&self, run: &RunId) {
        if let Some(waiting) = self.lock().get(run) {
            waiting.send_replace(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, watch::Sender<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    pub(super) async fn moved(&mut self) {
        // The sender stays in the map as long as we do.
        let _ = self.moved.changed().await;
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut waiting = self.all.lock();
        if waiting.get(&self.run).is_some_and(|told| told.receiver_count() <= 1) {
            waiting.remove(&self.run);
        }
    }
}
