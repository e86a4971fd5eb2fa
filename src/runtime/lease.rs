//! The lease of this process: a registration that is renewed, with a local deadline before that of the store. With SQLite,
//! where the locked folder keeps other processes out, there is no deadline.
//!
//! A lease is one registration of this process. When its deadline has passed, nothing may start under it any more: its token
//! is cancelled, loaded threads are dropped, and the process registers again, under a new lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use metrics::{counter, gauge, histogram};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::clock::Clock;
use crate::domain::Millis;
use crate::store::{Registration, Renewal, Result, Store};

/// How often the uptime is checked: timers stand still while the machine is suspended. A lease that ended meanwhile is noticed
/// at most this much later. Until then nothing starts, but running effects continue.
const UPTIME_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// When a lease ends: by the timer clock, or by the uptime, which includes suspension, whichever comes first.
#[derive(Clone, Copy, Debug)]
struct Deadline {
    at: Instant,
    uptime: Duration,
}

/// One registration of this process; clones share it.
#[derive(Clone)]
pub(super) struct Lease {
    pub(super) replica: Uuid,
    /// The id that is written to the threads claimed under this lease.
    pub(super) id: Uuid,
    /// Cancelled when the lease has ended.
    pub(super) ended: CancellationToken,
    /// `None`: it never expires.
    until: Arc<Mutex<Option<Deadline>>>,
    is_loss_counted: Arc<AtomicBool>,
    clock: Arc<dyn Clock>,
}

impl Lease {
    fn new(replica: Uuid, until: Option<Deadline>, clock: Arc<dyn Clock>) -> Self {
        let (until, is_loss_counted) = (Arc::new(Mutex::new(until)), Arc::default());
        Self { replica, id: Uuid::new_v4(), ended: CancellationToken::new(), until, is_loss_counted, clock }
    }

    /// Whether effects may start under it now. Ends the lease for good if its deadline has passed.
    pub(super) fn is_valid(&self) -> bool {
        let has_passed = |until: Deadline| Instant::now() >= until.at || self.clock.uptime() >= until.uptime;
        if self.until().is_some_and(has_passed) {
            self.ended.cancel();
        }
        !self.ended.is_cancelled()
    }

    /// Moves the deadline; `false`: the lease had ended.
    fn extend(&self, until: Deadline) -> bool {
        let is_valid = self.is_valid();
        if is_valid {
            *self.until.lock() = Some(until);
        }
        is_valid
    }

    fn until(&self) -> Option<Deadline> {
        *self.until.lock()
    }

    /// Ends the lease as one that was lost. That is counted and logged once, however often the next one cannot be had.
    fn lose(&self) {
        self.ended.cancel();
        if !self.is_loss_counted.swap(true, Ordering::Relaxed) {
            counter!("pes_lease_lost_total").increment(1);
            tracing::warn!(replica = %self.replica, "the lease was lost; going on under a new one");
        }
    }
}

pub(super) struct LeaseKeeper {
    ttl: Millis,
    /// The configured name of the process, if any.
    name: Option<String>,
    clock: Arc<dyn Clock>,
    current: Mutex<Lease>,
    /// The id of the next registration. It stays the same until a registration succeeds: if the store's answer was lost, the
    /// store may have it, and would refuse another id with the same name.
    next: Mutex<Uuid>,
    /// Why the last attempt to register again failed; `None`: it succeeded, or there was none.
    refusal: Mutex<Option<String>>,
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
        let (current, next) = (Mutex::new(first), Mutex::new(Uuid::new_v4()));
        Ok(Self { ttl, name, clock, current, next, refusal: Mutex::default() })
    }

    /// The lease under which effects may start now; `None`: it has ended.
    pub(super) fn current_lease(&self) -> Option<Lease> {
        let current = self.current();
        current.is_valid().then(|| current.clone())
    }

    /// Why there is no lease now; `None`: there is one.
    pub(super) fn failure(&self) -> Option<String> {
        if self.current_lease().is_some() {
            return None;
        }
        let ended = "it has ended and could not be renewed yet";
        Some(self.refusal.lock().as_ref().map_or(ended.to_owned(), |why| format!("{ended}: {why}")))
    }

    /// Renews the lease until `stop` is cancelled, and registers again when it was lost. Each is tried three times within the
    /// duration of a lease. A lease that is not renewed by its deadline ends then, whatever the store does.
    pub(super) async fn renew_until_stopped(&self, store: Arc<dyn Store>, stop: CancellationToken) {
        if !store.leases_expire() {
            return;
        }
        let third = span(self.ttl) / 3;
        let mut pause = third;
        loop {
            if stop.run_until_cancelled(self.sleep_or_lose(Instant::now() + pause)).await.is_none() {
                return;
            }
            let is_kept = stop.run_until_cancelled(self.renew(&*store)).await;
            pause = if is_kept == Some(true) { third } else { third / 4 };
        }
    }

    /// Sleeps until then, or until the lease ends or a new one begins.
    async fn sleep_or_lose(&self, until: Instant) {
        let known = self.current().clone();
        let was_valid = known.is_valid();
        while Instant::now() < until && known.is_valid() == was_valid {
            let end = known
                .until()
                .filter(|_| was_valid)
                .map_or(until, |end| end.at.min(Instant::now() + UPTIME_CHECK_INTERVAL));
            sleep_until(until.min(end)).await;
        }
    }

    /// Ends the registration, so that other processes may claim the threads at once.
    pub(super) async fn end(&self, store: &dyn Store) -> Result<()> {
        let last = self.current().clone();
        last.ended.cancel();
        store.unregister(last.replica).await
    }

    async fn renew(&self, store: &dyn Store) -> bool {
        let (asked, next, known) = (Instant::now(), deadline(&*self.clock, self.ttl), self.current().clone());
        let asked_at_uptime = self.clock.uptime();
        if !known.is_valid() {
            // It ended between two renewals: the process stood still, or the store failed each time.
            known.lose();
            return self.begin_anew(store).await;
        }
        let until = known.until().map_or(asked + span(self.ttl), |until| until.at);
        let renewed = timeout_at(until, store.renew(known.replica, self.ttl)).await;
        histogram!("pes_lease_renew_duration_seconds").record(asked.elapsed().as_secs_f64());
        gauge!("pes_lease_margin_seconds").set(until.saturating_duration_since(Instant::now()).as_secs_f64());
        match renewed {
            Ok(Ok(Renewal::Renewed { database_time })) if known.extend(next) => {
                if let Some(time) = database_time {
                    self.clock.follow(time, asked_at_uptime);
                }
                true
            }
            Ok(Err(error)) if known.is_valid() => {
                tracing::warn!(%error, "the lease cannot be renewed");
                false
            }
            Ok(Ok(Renewal::Renewed { .. } | Renewal::Expired) | Err(_)) | Err(_) => {
                known.lose();
                self.begin_anew(store).await
            }
        }
    }

    async fn begin_anew(&self, store: &dyn Store) -> bool {
        // A registration that takes longer than its own deadline would be over before it began.
        let (replica, former) = (*self.next.lock(), Some(self.current().replica));
        let new = Registration { replica, name: self.name.clone(), former };
        let until = deadline(&*self.clock, self.ttl).at;
        let refusal = match timeout_at(until, register(store, new, self.ttl, &self.clock)).await {
            Ok(Ok(next)) => {
                *self.current() = next;
                *self.next.lock() = Uuid::new_v4();
                None
            }
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("the store does not answer".to_owned()),
        };
        if let Some(error) = &refusal {
            tracing::warn!(%error, "cannot register");
        }
        *self.refusal.lock() = refusal;
        self.current_lease().is_some()
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

/// The local deadline: a fifth before that of the store, counted from before the request. So ours always ends first.
fn deadline(clock: &dyn Clock, ttl: Millis) -> Deadline {
    let span = span(ttl) * 4 / 5;
    Deadline { at: Instant::now() + span, uptime: clock.uptime() + span }
}

fn span(ttl: Millis) -> Duration {
    Duration::from_millis(u64::try_from(ttl).unwrap_or(0))
}

#[cfg(test)]
mod tests;
