//! The one timer of the process. It finds due threads, threads without an owner, and threads whose next run may begin.

mod probation;
mod wakeups;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio::time::timeout;

pub(super) use probation::CRASHES_OF_SUSPECT;
use probation::{AdmittedThreads, Probation};
use wakeups::WakeBackoff;

use super::lease::Lease;
use super::shared::Shared;
use crate::domain::Millis;
use crate::domain::ids::ThreadPk;
use crate::store::Result;

/// Bounds how long a look waits for slow threads before the next one.
const WAKE_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause after a failure, and while a thread is overdue that another process owns.
const RETRY_PAUSE: Millis = 1_000;

/// What the sweeper goes by besides the store.
#[derive(Default)]
pub(super) struct Sweeper {
    alarm: Alarm,
    pub(super) backoff: WakeBackoff,
    probation: Probation,
}

impl Sweeper {
    /// Has it look at `at` at the latest: a timer was stored for then, or runs that wait may begin.
    pub(super) fn look_by(&self, at: Millis) {
        if at < self.alarm.next_look.load(Ordering::SeqCst) {
            self.alarm.changed.notify_one();
        }
    }
}

/// Wakes the sweeper before its next look.
struct Alarm {
    /// An earlier time wakes the sweeper.
    next_look: AtomicI64,
    changed: Notify,
}

impl Default for Alarm {
    fn default() -> Self {
        Self { next_look: AtomicI64::new(Millis::MIN), changed: Notify::new() }
    }
}

impl Alarm {
    async fn sleep(&self, now: Millis, until: Millis) {
        self.next_look.store(until, Ordering::SeqCst);
        let span = Duration::from_millis(u64::try_from(until - now).unwrap_or(0));
        // A notification and a timeout mean the same: look.
        timeout(span, self.changed.notified()).await.ok();
        self.next_look.store(Millis::MIN, Ordering::SeqCst);
    }
}

impl Shared {
    /// Wakes due threads until the process drains. The first look recovers every unfinished run.
    pub(super) async fn sweep(self: Arc<Self>) {
        while !self.stop.is_draining() {
            let now = self.now();
            let until = self.wake_due(now).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "due threads could not be woken up; retrying in 1 s");
                now + RETRY_PAUSE
            });
            if until > now {
                self.stop.draining.run_until_cancelled(self.sweeper.alarm.sleep(now, until)).await;
            }
        }
    }

    /// Wakes what is due now. Returns when to look again.
    async fn wake_due(self: &Arc<Self>, now: Millis) -> Result<Millis> {
        let Some(lease) = self.lease_keeper.current_lease() else { return Ok(now + RETRY_PAUSE) };
        // Set before the work, so that a timer which is stored meanwhile notifies.
        self.sweeper.alarm.next_look.store(Millis::MAX, Ordering::SeqCst);
        let limit = self.sweeper.backoff.limit();
        let mut found = self.store.due(lease.replica, now, limit).await?;
        found.extend(self.reserve_unowned(&lease, now, limit).await?);
        let is_any_found = !found.is_empty();
        let is_any_woken = self.wake_all(found).await;
        // The runs that were woken first count by now.
        let begins = self.threads_to_begin().await?.sound;
        if !is_any_found && begins.is_empty() {
            let next = self.store.next_wake().await?.unwrap_or(Millis::MAX);
            // The lease of another process may end at any time.
            let is_watching = self.store.is_shared() || self.sweeper.probation.waiting() > 0;
            let horizon = if is_watching { RETRY_PAUSE } else { self.config.runtime.lease_ms.max(RETRY_PAUSE) };
            return Ok(if next <= now { now + RETRY_PAUSE } else { next.min(now + horizon) });
        }
        let is_any_woken = self.wake_all(begins).await || is_any_woken;
        // Threads that cannot be woken stay due: with the pause they cost one look a second, not a busy loop.
        Ok(if is_any_woken { now } else { now + RETRY_PAUSE })
    }

    /// Wakes the threads. Returns whether any of them succeeded or takes long.
    async fn wake_all(self: &Arc<Self>, pks: Vec<ThreadPk>) -> bool {
        let woken = join_all(pks.into_iter().filter_map(|pk| self.wake_with_backoff(pk)));
        match timeout(WAKE_TIMEOUT, woken).await {
            Ok(woken) => woken.into_iter().any(|done| done.unwrap_or(false)),
            Err(_) => true,
        }
    }

    /// Reserves threads without an owner for this process before they are read, suspects whose runs may begin among them. If
    /// reading one crashes the process, the crash is counted against it.
    async fn reserve_unowned(&self, lease: &Lease, now: Millis, limit: u32) -> Result<Vec<ThreadPk>> {
        self.store.end_expired().await?;
        self.look_for_crashes().await?;
        let waiting = u32::try_from(self.sweeper.probation.waiting()).unwrap_or(u32::MAX);
        let limit = limit.saturating_add(waiting);
        let mut found = self.store.claimable(now, lease.replica, lease.id, limit).await?;
        found.retain(|thread| self.sweeper.backoff.may_wake(thread.pk));
        if self.crash_watch.is_on() {
            found.extend(self.threads_to_begin().await?.suspects);
        }
        let AdmittedThreads { pks, cleared } = self.sweeper.probation.admit(found, |pk| self.actors.is_live(pk));
        let reserved = self.reserve(lease, &pks, &cleared).await;
        let kept: HashSet<ThreadPk> = reserved.iter().flatten().copied().collect();
        pks.into_iter().filter(|pk| !kept.contains(pk)).for_each(|pk| self.sweeper.probation.not_reloaded(pk));
        reserved
    }

    /// Reserves threads, after the crash counts of the suspects that are cleared were reset.
    async fn reserve(&self, lease: &Lease, pks: &[ThreadPk], cleared: &[ThreadPk]) -> Result<Vec<ThreadPk>> {
        if !cleared.is_empty() {
            self.store.forget_crashes_of_others(cleared).await?;
        }
        if pks.is_empty() { Ok(Vec::new()) } else { self.store.reserve(lease.replica, pks).await }
    }
}
