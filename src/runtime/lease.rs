//! This process's right to act: a registration that is renewed, and a local deadline that ends before the store's.
//!
//! An incarnation is one registration. When its deadline has passed, nothing may be started under it any more: its token
//! is cancelled, engines are dropped, and the process goes on as a new incarnation.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::domain::Millis;
use crate::store::{Result, Store};

/// One registration of this process.
#[derive(Clone, Debug)]
pub(super) struct Incarnation {
    pub(super) replica: Uuid,
    /// What this incarnation writes as the lease of the threads that it claims.
    pub(super) lease: Uuid,
    /// Cancelled when the right has ended.
    pub(super) ended: CancellationToken,
    until: Instant,
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
        (!current.ended.is_cancelled() && Instant::now() < current.until).then(|| current.clone())
    }

    /// Renews until `stop`; registers anew where the registration was lost. Both take three tries within one lease.
    pub(super) async fn keep(&self, store: Arc<dyn Store>, stop: CancellationToken) {
        let third = span(self.ttl) / 3;
        let mut pause = third;
        while stop.run_until_cancelled(sleep(pause)).await.is_some() {
            pause = if self.renew(&*store).await { third } else { third / 4 };
        }
    }

    /// Ends the registration: whoever comes next takes the threads at once.
    pub(super) async fn end(&self, store: &dyn Store) -> Result<()> {
        let last = self.current().clone();
        last.ended.cancel();
        store.unregister(last.replica).await
    }

    async fn renew(&self, store: &dyn Store) -> bool {
        let asked = Instant::now();
        let known = self.current().clone();
        match store.renew(known.replica, self.ttl).await {
            Ok(true) if !known.ended.is_cancelled() => {
                self.current().until = deadline(asked, self.ttl);
                true
            }
            Ok(true | false) => {
                known.ended.cancel();
                tracing::warn!(replica = %known.replica, "the lease was lost; going on as a new incarnation");
                match register(store, self.ttl).await {
                    Ok(next) => *self.current() = next,
                    Err(error) => tracing::warn!(%error, "cannot register"),
                }
                self.hold().is_some()
            }
            Err(error) => {
                tracing::warn!(%error, "the lease cannot be renewed");
                if Instant::now() >= known.until {
                    known.ended.cancel();
                }
                false
            }
        }
    }

    fn current(&self) -> MutexGuard<'_, Incarnation> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn register(store: &dyn Store, ttl: Millis) -> Result<Incarnation> {
    let (replica, asked) = (Uuid::new_v4(), Instant::now());
    store.register(replica, ttl).await?;
    Ok(Incarnation { replica, lease: Uuid::new_v4(), ended: CancellationToken::new(), until: deadline(asked, ttl) })
}

/// A fifth before the store's own, counted from before the store was asked: ours always ends first.
fn deadline(asked: Instant, ttl: Millis) -> Instant {
    asked + span(ttl) * 4 / 5
}

fn span(ttl: Millis) -> Duration {
    Duration::from_millis(u64::try_from(ttl).unwrap_or(0))
}
