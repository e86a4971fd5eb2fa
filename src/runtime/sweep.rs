//! The one timer of the process: due threads, threads that nobody owns, and those whose next run may begin.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::lease::Lease;
use super::probation::AdmittedThreads;
use super::shared::Shared;
use crate::domain::Millis;
use crate::domain::ids::ThreadPk;
use crate::store::Result;

/// How long the others wait for those that take long.
const PATIENCE: Duration = Duration::from_secs(1);
/// After a failure, and while something is overdue that belongs to another.
const PAUSE: Millis = 1_000;

/// Wakes the sweeper when a timer is set that is due before it would look.
pub(super) struct Alarm {
    at: AtomicI64,
    rung: Notify,
}

impl Default for Alarm {
    fn default() -> Self {
        Self { at: AtomicI64::new(Millis::MIN), rung: Notify::new() }
    }
}

impl Alarm {
    /// A timer was set for `at`, durably.
    pub(super) fn sooner(&self, at: Millis) {
        if at < self.at.load(Ordering::SeqCst) {
            self.rung.notify_one();
        }
    }

    async fn sleep(&self, now: Millis, until: Millis) {
        self.at.store(until, Ordering::SeqCst);
        let span = Duration::from_millis(u64::try_from(until - now).unwrap_or(0));
        // Rung or slept out: both mean look.
        timeout(span, self.rung.notified()).await.ok();
        self.at.store(Millis::MIN, Ordering::SeqCst);
    }
}

impl Shared {
    /// Looks after threads until the process drains. The first look is the recovery of every unfinished run.
    pub(super) async fn sweep(self: Arc<Self>) {
        loop {
            let now = self.now();
            let until = self.look(now).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "due threads could not be looked up; retrying in 1 s");
                now + PAUSE
            });
            if until > now && self.draining.run_until_cancelled(self.alarm.sleep(now, until)).await.is_none() {
                return;
            }
            if self.draining.is_cancelled() {
                return;
            }
        }
    }

    /// Looks after what is due now; returns when to look again.
    async fn look(self: &Arc<Self>, now: Millis) -> Result<Millis> {
        let Some(hold) = self.lease_keeper.hold() else { return Ok(now + PAUSE) };
        // Read before the work: a timer that is set meanwhile rings.
        self.alarm.at.store(Millis::MAX, Ordering::SeqCst);
        let limit = self.wake_backoff.limit();
        let mut found = self.store.due(hold.replica, now, limit).await?;
        found.extend(self.take_up(&hold, now, limit).await?);
        let is_any_found = !found.is_empty();
        let is_any_done = self.wake_all(found).await;
        // What went on before counts by now.
        let begins = self.threads_to_begin().await?;
        if !is_any_found && begins.is_empty() {
            let next = self.store.next_wake().await?.unwrap_or(Millis::MAX);
            // Another's lease may end, or be given back, at any time.
            let is_watching = self.store.is_shared() || self.probation.waiting() > 0;
            let horizon = if is_watching { PAUSE } else { self.config.runtime.lease_ms.max(PAUSE) };
            return Ok(if next <= now { now + PAUSE } else { next.min(now + horizon) });
        }
        let is_any_done = self.wake_all(begins).await || is_any_done;
        // Threads that cannot be looked after stay due: they cost a look a second, not a core.
        Ok(if is_any_done { now } else { now + PAUSE })
    }

    /// Whether any was looked after, or takes long.
    async fn wake_all(self: &Arc<Self>, pks: Vec<ThreadPk>) -> bool {
        let looked = join_all(pks.into_iter().filter_map(|pk| self.wake_with_backoff(pk)));
        match timeout(PATIENCE, looked).await {
            Ok(looked) => looked.into_iter().any(|done| done.unwrap_or(false)),
            Err(_) => true,
        }
    }

    /// Threads that nobody takes care of are this process's before they are read: if one of them is why it dies, that is
    /// known of it.
    async fn take_up(&self, hold: &Lease, now: Millis, limit: u32) -> Result<Vec<ThreadPk>> {
        self.store.end_expired().await?;
        self.look_for_crashes().await?;
        let waiting = u32::try_from(self.probation.waiting()).unwrap_or(u32::MAX);
        let limit = limit.saturating_add(waiting);
        let mut found = self.store.claimable(now, hold.replica, hold.lease, limit).await?;
        found.retain(|it| self.wake_backoff.is_free(it.pk));
        let AdmittedThreads { pks, cleared } = self.probation.admit(found, |pk| self.actors.is_live(pk));
        if !cleared.is_empty() {
            self.store.forget_crashes(&cleared, true).await?;
        }
        if pks.is_empty() { Ok(pks) } else { self.store.reserve(hold.replica, &pks).await }
    }
}
