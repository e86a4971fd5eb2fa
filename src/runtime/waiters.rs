//! The requests that wait for a run: they are notified when it changes, so that none of them polls the store.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::domain::ids::{RunId, ThreadPk};
use crate::domain::run::RunResource;

/// Runs that somebody waits for; others take no memory.
#[derive(Default)]
pub(super) struct Waiters(Arc<Mutex<HashMap<RunId, Awaited>>>);

/// The run as it is now; `None`: it changed, and must be read from the store.
type News = Option<Box<RunResource>>;

struct Awaited {
    moved: watch::Sender<News>,
    waiters: usize,
    /// Once it is known.
    pk: Option<ThreadPk>,
}

/// One that waits for a run; dropping it ends the wait.
pub(crate) struct Waiter {
    run: RunId,
    moved: watch::Receiver<News>,
    all: Waiters,
}

impl Waiters {
    /// Waits for a run: every change from now on is notified. Read the run after this call, not before.
    pub(super) fn join(&self, run: &RunId) -> Waiter {
        let mut waiting = self.0.lock();
        let new = || Awaited { moved: watch::channel(None).0, waiters: 0, pk: None };
        let awaited = waiting.entry(run.clone()).or_insert_with(new);
        awaited.waiters += 1;
        Waiter { run: run.clone(), moved: awaited.moved.subscribe(), all: Self(self.0.clone()) }
    }

    pub(super) fn is_awaited(&self, run: &RunId) -> bool {
        self.0.lock().contains_key(run)
    }

    /// The run changed, durably. `news` is called only if somebody waits for the run.
    pub(super) fn notify(&self, run: &RunId, news: impl FnOnce() -> Option<RunResource>) {
        if let Some(awaited) = self.0.lock().get(run) {
            awaited.moved.send_replace(news().map(Box::new));
        }
    }

    /// Any run of this thread may have changed. Also wakes those who wait for a run whose thread is not known yet.
    pub(super) fn notify_thread(&self, pk: ThreadPk) {
        self.0
            .lock()
            .values()
            .filter(|awaited| awaited.pk.is_none_or(|known| known == pk))
            .for_each(|run| drop(run.moved.send_replace(None)));
    }

    /// The threads of the runs that somebody waits for.
    pub(super) fn threads(&self) -> Vec<ThreadPk> {
        self.0.lock().values().filter_map(|awaited| awaited.pk).collect()
    }
}

impl Waiter {
    /// Returns when the run, one of thread `pk`, has changed since the last call: with the new run if that is known
    /// without reading the store.
    pub(crate) async fn moved(&mut self, pk: ThreadPk) -> Option<RunResource> {
        if let Some(awaited) = self.all.0.lock().get_mut(&self.run) {
            awaited.pk = Some(pk);
        }
        // The sender stays in the map as long as we do.
        let _ = self.moved.changed().await;
        self.moved.borrow_and_update().as_deref().cloned()
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
