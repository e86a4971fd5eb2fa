//! Reservations of threads at rest that are read for a request. For an hour after a crash of any process, an unowned thread is
//! reserved for this process before it is read. If reading it crashes the process, the crash is counted against that thread.
//! The first crash is counted against no thread at rest: reserving at every read would cost each request a commit. Due
//! threads are always reserved by the sweeper.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::actor::Actor;
use super::command::CommandError;
use super::shared::Shared;
use crate::domain::fault::Fault;
use crate::store::{LeaseChange, PROCESS_CRASHES, Result, ThreadRow};

/// How long the watch lasts after a crash.
const WATCH_DURATION: Duration = Duration::from_secs(3_600);
/// How often the store is asked for crashes.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct CrashWatch(Mutex<Option<CrashState>>);

#[derive(Clone, Copy)]
struct CrashState {
    crashes: i64,
    /// When the last of them was noticed.
    since: Instant,
    polled_at: Instant,
}

impl CrashWatch {
    /// Whether a process crashed within the last hour.
    pub(super) fn is_on(&self) -> bool {
        self.0.lock().is_some_and(|state| state.crashes > 0)
    }

    /// Whether it is time to ask the store for crashes again.
    fn should_poll(&self, others_may_crash: bool) -> bool {
        self.0
            .lock()
            .is_none_or(|state| (others_may_crash || state.crashes > 0) && state.polled_at.elapsed() >= POLL_INTERVAL)
    }

    /// Takes in the number of crashes in the store. `true`: the watch ends, because the last one is an hour ago.
    fn update(&self, crashes: i64) -> bool {
        let mut state = self.0.lock();
        let now = Instant::now();
        let since = state.filter(|state| state.crashes == crashes).map_or(now, |state| state.since);
        let is_over = crashes > 0 && since.elapsed() >= WATCH_DURATION;
        *state = Some(CrashState { crashes: if is_over { 0 } else { crashes }, since, polled_at: now });
        is_over
    }
}

impl Shared {
    /// Asks the store whether a process crashed, if it is time to.
    pub(super) async fn look_for_crashes(&self) -> Result<()> {
        if self.crash_watch.should_poll(self.store.is_shared())
            && self.crash_watch.update(self.store.process_crashes().await?)
        {
            self.store.forget_crashes(&[PROCESS_CRASHES]).await?;
        }
        Ok(())
    }
}

impl Actor {
    /// Reserves an unowned thread for this process before it is read, if a process crashed lately. A thread that caused too
    /// many crashes is quarantined instead.
    pub(super) async fn reserve_before_read(&mut self) -> std::result::Result<(), CommandError> {
        if !self.shared.crash_watch.is_on() || self.shared.stop.is_draining() {
            return Ok(());
        }
        let Some(lease) = self.shared.lease_keeper.current_lease() else { return Ok(()) };
        let Some(row) = self.shared.store.thread_by_pk(self.pk).await? else { return Ok(()) };
        if row.is_owned {
            return Ok(());
        }
        if self.must_quarantine(&row) && row.status.is_at_rest() {
            self.quarantine(&row, false).await?;
            return Err(Fault::quarantined().into());
        }
        self.is_reserved = !self.shared.store.reserve(lease.replica, &[self.pk]).await?.is_empty();
        Ok(())
    }

    /// Releases the reservation of this thread, if nothing of it is to be done here.
    pub(super) async fn end_reservation(&mut self) -> std::result::Result<(), CommandError> {
        // A suspect (see `probation.rs`): the sweeper decides when it continues.
        if self.loaded.as_ref().is_some_and(|loaded| loaded.machine.is_active() && !self.is_ours(loaded)) {
            return Ok(());
        }
        self.release_reservation().await
    }

    /// Releases the sweeper's reservation after a wake-up if another process may be able to continue the thread: this one
    /// drains, or refuses it for another reason than an outage, as it does if it does not have the thread's core.
    pub(super) async fn leave_to_others(&mut self, looked: &std::result::Result<(), CommandError>) {
        let is_refused = looked.as_ref().is_err_and(|refusal| !refusal.is_outage());
        if self.shared.store.is_shared() && (is_refused || self.shared.stop.is_draining()) {
            let released = self.release_reservation().await;
            self.warn_if_reserved(released);
        }
    }

    pub(super) fn warn_if_reserved(&self, released: std::result::Result<(), CommandError>) {
        if let Err(refusal) = released {
            let (pk, thread) = (self.pk.0, self.thread_id());
            tracing::warn!(threadPk = pk, threadId = thread, ?refusal, "a thread stays reserved for this process");
        }
    }

    /// Releases the reservation of this thread, unless the thread was claimed under it.
    async fn release_reservation(&mut self) -> std::result::Result<(), CommandError> {
        let row: ThreadRow = match &self.loaded {
            Some(loaded) => loaded.row.clone(),
            None => match self.shared.store.thread_by_pk(self.pk).await? {
                Some(row) => row,
                None => return Ok(()),
            },
        };
        self.is_reserved = false;
        let lease = self.shared.lease_keeper.current_lease();
        let is_unused =
            lease.is_some_and(|lease| row.replica == Some(lease.replica) && row.fence.lease != Some(lease.id));
        if !is_unused {
            return Ok(());
        }
        let commit = row.commit(LeaseChange::Release, self.shared.now());
        if self.loaded.is_some() {
            self.write(commit).await?;
        } else {
            self.shared.store.commit(commit).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_watch_begins_with_a_crash_and_ends_an_hour_after_the_last() {
        let watch = CrashWatch::default();
        assert!(watch.should_poll(false) && !watch.update(0) && !watch.is_on());
        assert!(!watch.should_poll(false), "nobody else can crash");
        tokio::time::advance(POLL_INTERVAL).await;
        assert!(watch.should_poll(true) && !watch.update(1) && watch.is_on());
        tokio::time::advance(WATCH_DURATION - POLL_INTERVAL).await;
        assert!(!watch.update(2) && watch.is_on(), "another");
        tokio::time::advance(WATCH_DURATION - POLL_INTERVAL).await;
        assert!(!watch.update(2) && watch.is_on());
        tokio::time::advance(POLL_INTERVAL).await;
        assert!(watch.should_poll(false) && watch.update(2) && !watch.is_on());
    }
}
