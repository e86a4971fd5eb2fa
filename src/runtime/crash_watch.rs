//! Threads at rest are read for requests. For an hour after any process crashed, one that nobody owns is reserved for this
//! process before it is read. If reading it crashes the process, the crash is then counted against that thread. The first crash
//! is counted against no thread at rest: reserving at every read would cost each request a commit. Threads that are due are
//! reserved by the sweeper in any case.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::actor::Actor;
use super::command::{Refusal, Reply};
use super::shared::Shared;
use crate::domain::fault::Fault;
use crate::store::{LeaseChange, NO_THREAD, Result, ThreadRow};

/// How long after a crash.
const WATCH_TIME: Duration = Duration::from_secs(3_600);
/// How often the store is asked for crashes.
const ASK_PAUSE: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct CrashWatch(Mutex<Option<Known>>);

#[derive(Clone, Copy)]
struct Known {
    crashes: i64,
    /// When the last of them was noticed.
    since: Instant,
    asked: Instant,
}

impl CrashWatch {
    /// Whether a process crashed within the last hour.
    fn is_on(&self) -> bool {
        self.0.lock().is_some_and(|known| known.crashes > 0)
    }

    /// Whether it is time to ask the store for crashes again.
    fn should_ask(&self, others_may_crash: bool) -> bool {
        self.0.lock().is_none_or(|known| (others_may_crash || known.crashes > 0) && known.asked.elapsed() >= ASK_PAUSE)
    }

    /// The store knows of so many crashes. `true`: the watch ends, as the last is an hour ago.
    fn update(&self, crashes: i64) -> bool {
        let mut known = self.0.lock();
        let now = Instant::now();
        let since = known.filter(|known| known.crashes == crashes).map_or(now, |known| known.since);
        let is_over = crashes > 0 && since.elapsed() >= WATCH_TIME;
        *known = Some(Known { crashes: if is_over { 0 } else { crashes }, since, asked: now });
        is_over
    }
}

impl Shared {
    /// Learns whether a process crashed.
    pub(super) async fn look_for_crashes(&self) -> Result<()> {
        if self.crash_watch.should_ask(self.store.is_shared()) && self.crash_watch.update(self.store.deaths().await?) {
            self.store.forget_crashes(&[NO_THREAD], false).await?;
        }
        Ok(())
    }
}

impl Actor {
    /// Reserves the thread for this process before it is read, if a process crashed lately and nobody owns it. One that crashed
    /// too many is not even read.
    pub(super) async fn reserve_before_read(&mut self) -> std::result::Result<(), Refusal> {
        if !self.shared.crash_watch.is_on() || self.shared.draining.is_cancelled() {
            return Ok(());
        }
        let Some(hold) = self.shared.lease_keeper.hold() else { return Ok(()) };
        let Some(row) = self.shared.store.thread_by_pk(self.pk).await? else { return Ok(()) };
        if row.is_owned {
            return Ok(());
        }
        if self.is_to_be_set_aside(&row) && row.status.is_at_rest() {
            self.set_aside(&row, false).await?;
            return Err(Fault::quarantined().into());
        }
        self.is_reserved = !self.shared.store.reserve(hold.replica, &[self.pk]).await?.is_empty();
        Ok(())
    }

    /// Answers a command, once the thread is anybody's again if it was reserved for nothing.
    pub(super) async fn answer<T>(&mut self, reply: Reply<T>, answer: std::result::Result<T, Refusal>) {
        if self.is_reserved
            && let Err(refusal) = self.end_reservation().await
        {
            tracing::warn!(
                threadPk = self.pk.0,
                threadId = self.thread_id(),
                ?refusal,
                "a thread at rest stays reserved for this process"
            );
        }
        // Who asked may be gone by now; what was decided holds.
        drop(reply.send(answer));
    }

    async fn end_reservation(&mut self) -> std::result::Result<(), Refusal> {
        let row: ThreadRow = match &self.loaded {
            // Reserved, and suspected: the sweeper decides when it goes on.
            Some(loaded) if loaded.machine.is_active() && !self.is_ours(loaded) => return Ok(()),
            Some(loaded) => loaded.row.clone(),
            None => match self.shared.store.thread_by_pk(self.pk).await? {
                Some(row) => row,
                None => return Ok(()),
            },
        };
        self.is_reserved = false;
        let hold = self.shared.lease_keeper.hold();
        let is_unused =
            hold.is_some_and(|hold| row.replica == Some(hold.replica) && row.fence.lease != Some(hold.lease));
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
        assert!(watch.should_ask(false) && !watch.update(0) && !watch.is_on());
        assert!(!watch.should_ask(false), "nobody else can crash");
        tokio::time::advance(ASK_PAUSE).await;
        assert!(watch.should_ask(true) && !watch.update(1) && watch.is_on());
        tokio::time::advance(WATCH_TIME - ASK_PAUSE).await;
        assert!(!watch.update(2) && watch.is_on(), "another");
        tokio::time::advance(WATCH_TIME - ASK_PAUSE).await;
        assert!(!watch.update(2) && watch.is_on());
        tokio::time::advance(ASK_PAUSE).await;
        assert!(watch.should_ask(false) && watch.update(2) && !watch.is_on());
    }
}
