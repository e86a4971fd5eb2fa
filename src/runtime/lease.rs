//! This process's right to act: a registration that is renewed, and a local deadline that ends before the store's. Where
//! nobody else can ever act (SQLite: the folder is locked) there is no deadline.
//!
//! A lease is one registration of this process. When its deadline has passed, nothing may be started under it any more: its token
//! is cancelled, engines are dropped, and the process registers again, under a new lease.

use std::sync::Arc;
use std::time::Duration;

use metrics::{counter, gauge, histogram};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::clock::Clock;
use crate::domain::Millis;
use crate::store::{Registration, Result, Store};

/// How long a suspended machine that goes on may believe in its right: nothing starts meanwhile, but what runs goes on.
const LOOK: Duration = Duration::from_secs(1);

/// When a right ends, by the clock of timers and by the one that counts suspend: whichever comes first.
#[derive(Clone, Copy, Debug)]
struct Deadline {
    at: Instant,
    uptime: Duration,
}

/// One registration of this process; clones share it.
#[derive(Clone)]
pub(super) struct Lease {
    pub(super) replica: Uuid,
    /// The id that is written to the threads that are claimed under this lease.
    pub(super) lease: Uuid,
    /// Cancelled when the right has ended.
    pub(super) ended: CancellationToken,
    /// `None`: it does not end by itself.
    until: Arc<Mutex<Option<Deadline>>>,
    clock: Arc<dyn Clock>,
}

impl Lease {
    fn new(replica: Uuid, until: Option<Deadline>, clock: Arc<dyn Clock>) -> Self {
        let until = Arc::new(Mutex::new(until));
        Self { replica, lease: Uuid::new_v4(), ended: CancellationToken::new(), until, clock }
    }

    /// Whether something may start under it at this moment. Once its deadline has passed it is over for good, whoever
    /// notices first.
    pub(super) fn holds(&self) -> bool {
        let is_over = |until: Deadline| Instant::now() >= until.at || self.clock.uptime() >= until.uptime;
        if self.until().is_some_and(is_over) {
            self.ended.cancel();
        }
        !self.ended.is_cancelled()
    }

    /// `false`: it had ended meanwhile.
    fn extend(&self, until: Deadline) -> bool {
        let holds = self.holds();
        if holds {
            *self.until.lock() = Some(until);
        }
        holds
    }

    fn until(&self) -> Option<Deadline> {
        *self.until.lock()
    }
}

pub(super) struct LeaseKeeper {
    ttl: Millis,
    /// The process's own, if it was given one.
    name: Option<String>,
    clock: Arc<dyn Clock>,
    current: Mutex<Lease>,
    /// The next registration's id, until one with it is answered: where the answer was lost, the store may have it, and
    /// another one of the same name would be refused.
    next: Mutex<Uuid>,
}

impl LeaseKeeper {
    /// Registers the process for the first time.
    pub(super) async fn begin(
        store: &dyn Store,
        ttl: Millis,
        name: Option<String>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let new = Registration { replica: Uuid::new_v4(), name: name.clone(), former: None };
        let first = register(store, new, ttl, &clock).await?;
        Ok(Self { ttl, name, clock, current: Mutex::new(first), next: Mutex::new(Uuid::new_v4()) })
    }

    /// The lease under which effects may start now; `None` while there is none.
    pub(super) fn hold(&self) -> Option<Lease> {
        let current = self.current();
        current.holds().then(|| current.clone())
    }

    /// Renews until `stop`; registers anew where the registration was lost. Both take three tries within one lease. An
    /// lease that is not renewed by its deadline ends then, whatever the store does.
    pub(super) async fn keep(&self, store: Arc<dyn Store>, stop: CancellationToken) {
        if !store.leases_expire() {
            return;
        }
        let third = span(self.ttl) / 3;
        let mut pause = third;
        loop {
            if stop.run_until_cancelled(self.rest(Instant::now() + pause)).await.is_none() {
                return;
            }
            let is_kept = stop.run_until_cancelled(self.renew(&*store)).await;
            pause = if is_kept == Some(true) { third } else { third / 4 };
        }
    }

    /// Until then, or until the right ends.
    async fn rest(&self, until: Instant) {
        let known = self.current().clone();
        let held = known.holds();
        while Instant::now() < until && known.holds() == held {
            let end = known.until().filter(|_| held).map_or(until, |end| end.at.min(Instant::now() + LOOK));
            sleep_until(until.min(end)).await;
        }
    }

    /// Ends the registration: another process may claim the threads at once.
    pub(super) async fn end(&self, store: &dyn Store) -> Result<()> {
        let last = self.current().clone();
        last.ended.cancel();
        store.unregister(last.replica).await
    }

    async fn renew(&self, store: &dyn Store) -> bool {
        let (asked, next, known) = (Instant::now(), deadline(&*self.clock, self.ttl), self.current().clone());
        if !known.holds() {
            return self.begin_anew(store).await;
        }
        let until = known.until().map_or(asked + span(self.ttl), |until| until.at);
        let renewed = timeout_at(until, store.renew(known.replica, self.ttl)).await;
        histogram!("pes_lease_renew_duration_seconds").record(asked.elapsed().as_secs_f64());
        gauge!("pes_lease_margin_seconds").set(until.saturating_duration_since(Instant::now()).as_secs_f64());
        match renewed {
            Ok(Ok(true)) if known.extend(next) => true,
            Ok(Err(error)) if known.holds() => {
                tracing::warn!(%error, "the lease cannot be renewed");
                false
            }
            Ok(Ok(true | false) | Err(_)) | Err(_) => {
                known.ended.cancel();
                counter!("pes_lease_lost_total").increment(1);
                tracing::warn!(replica = %known.replica, "the lease was lost; going on under a new one");
                self.begin_anew(store).await
            }
        }
    }

    async fn begin_anew(&self, store: &dyn Store) -> bool {
        // A registration that takes so long would have ended before it began.
        let (replica, former) = (*self.next.lock(), Some(self.current().replica));
        let new = Registration { replica, name: self.name.clone(), former };
        let until = deadline(&*self.clock, self.ttl).at;
        match timeout_at(until, register(store, new, self.ttl, &self.clock)).await {
            Ok(Ok(next)) => {
                *self.current() = next;
                *self.next.lock() = Uuid::new_v4();
            }
            Ok(Err(error)) => tracing::warn!(%error, "cannot register"),
            Err(_) => tracing::warn!("cannot register: the store does not answer"),
        }
        self.hold().is_some()
    }

    fn current(&self) -> MutexGuard<'_, Lease> {
        self.current.lock()
    }
}

async fn register(store: &dyn Store, new: Registration, ttl: Millis, clock: &Arc<dyn Clock>) -> Result<Lease> {
    let (replica, until) = (new.replica, deadline(&**clock, ttl));
    store.register(new, ttl).await?;
    Ok(Lease::new(replica, store.leases_expire().then_some(until), clock.clone()))
}

/// A fifth before the store's own, counted from before the store is asked: ours always ends first.
fn deadline(clock: &dyn Clock, ttl: Millis) -> Deadline {
    let span = span(ttl) * 4 / 5;
    Deadline { at: Instant::now() + span, uptime: clock.uptime() + span }
}

fn span(ttl: Millis) -> Duration {
    Duration::from_millis(u64::try_from(ttl).unwrap_or(0))
}

#[cfg(test)]
mod tests;
