//! This process's right to act: a registration that is renewed, and a local deadline that ends before the store's.
//!
//! An incarnation is one registration. When its deadline has passed, nothing may be started under it any more: its token
//! is cancelled, engines are dropped, and the process goes on as a new incarnation.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::domain::Millis;
use crate::store::{Result, Store};

/// One registration of this process; clones share it.
#[derive(Clone, Debug)]
pub(super) struct Incarnation {
    pub(super) replica: Uuid,
    /// What this incarnation writes as the lease of the threads that it claims.
    pub(super) lease: Uuid,
    /// Cancelled when the right has ended.
    pub(super) ended: CancellationToken,
    until: Arc<Mutex<Instant>>,
}

impl Incarnation {
    pub(super) fn new(replica: Uuid, until: Instant) -> Self {
        let until = Arc::new(Mutex::new(until));
        Self { replica, lease: Uuid::new_v4(), ended: CancellationToken::new(), until }
    }

    /// Whether something may start under it at this moment. Once its deadline has passed it is over for good, whoever
    /// notices first.
    pub(super) fn holds(&self) -> bool {
        if Instant::now() >= self.until() {
            self.ended.cancel();
        }
        !self.ended.is_cancelled()
    }

    /// `false`: it had ended meanwhile.
    fn extend(&self, until: Instant) -> bool {
        let holds = self.holds();
        if holds {
            *self.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
        }
        holds
    }

    fn until(&self) -> Instant {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Tenure {
    ttl: Millis,
    current: Mutex<Incarnation>,
}

impl Tenure {
    /// Registers the first incarnation.
    pub(super) async fn begin(store: &dyn Store, ttl: Millis) -> Result<Self> {
        let first = register(store, ttl).await?;
        Ok(Self { ttl, current: Mutex::new(first) })
    }

    /// The incarnation under which effects may start now; `None` while there is none.
    pub(super) fn hold(&self) -> Option<Incarnation> {
        let current = self.current();
        current.holds().then(|| current.clone())
    }

    /// Renews until `stop`; registers anew where the registration was lost. Both take three tries within one lease. An
    /// incarnation that is not renewed by its deadline ends then, whatever the store does.
    pub(super) async fn keep(&self, store: Arc<dyn Store>, stop: CancellationToken) {
        let third = span(self.ttl) / 3;
        let mut pause = third;
        loop {
            let (next, known) = (Instant::now() + pause, self.current().clone());
            let at = if known.holds() { next.min(known.until()) } else { next };
            if stop.run_until_cancelled(sleep_until(at)).await.is_none() {
                return;
            }
            let is_kept = stop.run_until_cancelled(self.renew(&*store)).await;
            pause = if is_kept == Some(true) { third } else { third / 4 };
        }
    }

    /// Ends the registration: whoever comes next takes the threads at once.
    pub(super) async fn end(&self, store: &dyn Store) -> Result<()> {
        let last = self.current().clone();
        last.ended.cancel();
        store.unregister(last.replica).await
    }

    async fn renew(&self, store: &dyn Store) -> bool {
        let (asked, known) = (Instant::now(), self.current().clone());
        if !known.holds() {
            return self.begin_anew(store).await;
        }
        match timeout_at(known.until(), store.renew(known.replica, self.ttl)).await {
            Ok(Ok(true)) if known.extend(deadline(asked, self.ttl)) => true,
            Ok(Err(error)) if known.holds() => {
                tracing::warn!(%error, "the lease cannot be renewed");
                false
            }
            Ok(Ok(true | false) | Err(_)) | Err(_) => {
                known.ended.cancel();
                tracing::warn!(replica = %known.replica, "the lease was lost; going on as a new incarnation");
                self.begin_anew(store).await
            }
        }
    }

    async fn begin_anew(&self, store: &dyn Store) -> bool {
        // A registration that takes so long would have ended before it began.
        match timeout_at(deadline(Instant::now(), self.ttl), register(store, self.ttl)).await {
            Ok(Ok(next)) => *self.current() = next,
            Ok(Err(error)) => tracing::warn!(%error, "cannot register"),
            Err(_) => tracing::warn!("cannot register: the store does not answer"),
        }
        self.hold().is_some()
    }

    fn current(&self) -> MutexGuard<'_, Incarnation> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn register(store: &dyn Store, ttl: Millis) -> Result<Incarnation> {
    let (replica, asked) = (Uuid::new_v4(), Instant::now());
    store.register(replica, ttl).await?;
    Ok(Incarnation::new(replica, deadline(asked, ttl)))
}

/// A fifth before the store's own, counted from before the store was asked: ours always ends first.
fn deadline(asked: Instant, ttl: Millis) -> Instant {
    asked + span(ttl) * 4 / 5
}

fn span(ttl: Millis) -> Duration {
    Duration::from_millis(u64::try_from(ttl).unwrap_or(0))
}
