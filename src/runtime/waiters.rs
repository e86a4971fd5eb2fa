//! The requests that wait for a run. They are notified when it changes, so that none of them polls the store.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::domain::ids::{RunId, ThreadPk};
use crate::domain::run::RunResource;

/// The awaited runs; others take no memory.
#[derive(Default)]
pub(super) struct Waiters(Arc<Mutex<HashMap<RunId, AwaitedRun>>>);

/// The new state of a run; `None`: it must be read from the store.
type RunUpdate = Option<Box<RunResource>>;

struct AwaitedRun {
    updates: watch::Sender<RunUpdate>,
    waiters: usize,
    /// The run's thread, once it is known.
    pk: Option<ThreadPk>,
}

/// Waits for a run until it is dropped.
pub(crate) struct Waiter {
    run: RunId,
    updates: watch::Receiver<RunUpdate>,
    all: Waiters,
}

impl Waiters {
    /// Subscribes to the changes of a run. Read the run after this call, not before.
    pub(super) fn join(&self, run: &RunId) -> Waiter {
        let mut waiting = self.0.lock();
        let new = || AwaitedRun { updates: watch::channel(None).0, waiters: 0, pk: None };
        let awaited = waiting.entry(run.clone()).or_insert_with(new);
        awaited.waiters += 1;
        Waiter { run: run.clone(), updates: awaited.updates.subscribe(), all: Self(self.0.clone()) }
    }

    /// Notifies the waiters of a run of a durable change. `update` is called only if there are any.
    pub(super) fn notify(&self, run: &RunId, update: impl FnOnce() -> Option<RunResource>) {
        if let Some(awaited) = self.0.lock().get(run) {
            awaited.updates.send_replace(update().map(Box::new));
        }
    }

    /// Notifies the waiters of all runs of a thread: any of them may have changed. Also wakes waiters whose thread is not known
    /// yet.
    pub(super) fn notify_thread(&self, pk: ThreadPk) {
        self.0
            .lock()
            .values()
            .filter(|awaited| awaited.pk.is_none_or(|known| known == pk))
            .for_each(|run| drop(run.updates.send_replace(None)));
    }

    /// The threads of the awaited runs.
    pub(super) fn threads(&self) -> Vec<ThreadPk> {
        self.0.lock().values().filter_map(|awaited| awaited.pk).collect()
    }
}

impl Waiter {
    /// Waits until the run, which belongs to thread `pk`, has changed since the last call. `None`: read the run from the store.
    pub(crate) async fn changed(&mut self, pk: ThreadPk) -> Option<RunResource> {
        if let Some(awaited) = self.all.0.lock().get_mut(&self.run) {
            awaited.pk = Some(pk);
        }
        // Cannot fail: the sender is in the map as long as this waiter lives.
        let _ = self.updates.changed().await;
        self.updates.borrow_and_update().as_deref().cloned()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut waiting = self.all.0.lock();
        let Some(awaited) = waiting.get_mut(&self.run) else { return };
        awaited.waiters -= 1;
        if awaited.waiters == 0 {
            waiting.remove(&self.run);
        }
    }
}
