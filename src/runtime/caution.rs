//! Threads that nobody takes care of are reserved by the sweeper before they are read, so that a death of the process is
//! counted for the one that causes it. A thread at rest is read for a request; to write each time that it is in hand would
//! cost every request a commit. So that is done only for a while after a process has died: the first death is counted for
//! nobody, the next ones for the thread.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::actor::Actor;
use super::command::{Refusal, Reply};
use super::shared::Shared;
use crate::domain::fault::Fault;
use crate::store::{LeaseChange, NO_THREAD, Result, ThreadRow};

/// How long after a death.
const WATCH_TIME: Duration = Duration::from_secs(3_600);
/// How often the store is asked for deaths.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Caution(Mutex<Option<Known>>);

#[derive(Clone, Copy)]
struct Known {
    deaths: i64,
    /// When the last of them was noticed.
    since: Instant,
    asked: Instant,
}

impl Caution {
    /// Whether a process has died lately.
    fn is_needed(&self) -> bool {
        self.0.lock().is_some_and(|known| known.deaths > 0)
    }

    fn is_to_ask(&self, others_may_die: bool) -> bool {
        self.0.lock().is_none_or(|known| (others_may_die || known.deaths > 0) && known.asked.elapsed() >= PAUSE)
    }

    /// So many deaths are known of. `true`: the last is long ago.
    fn notice(&self, deaths: i64) -> bool {
        let mut known = self.0.lock();
        let now = Instant::now();
        let since = known.filter(|known| known.deaths == deaths).map_or(now, |known| known.since);
        let is_over = deaths > 0 && since.elapsed() >= WATCH_TIME;
        *known = Some(Known { deaths: if is_over { 0 } else { deaths }, since, asked: now });
        is_over
    }
}

impl Shared {
    /// Learns whether a process has died.
    pub(super) async fn look_for_deaths(&self) -> Result<()> {
        if self.caution.is_to_ask(self.store.is_shared()) && self.caution.notice(self.store.deaths().await?) {
            self.store.forget_crashes(&[NO_THREAD], false).await?;
        }
        Ok(())
    }
}

impl Actor {
    /// Before the thread is read: says that this process has it in hand, if a process has died lately and nobody has it. One
    /// that was the death of too many is not even read.
    pub(super) async fn take_in_hand(&mut self) -> std::result::Result<(), Refusal> {
        if !self.shared.caution.is_needed() || self.shared.draining.is_cancelled() {
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
            tracing::warn!(thread = self.pk.0, ?refusal, "a thread at rest stays reserved for this process");
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
    async fn caution_begins_with_a_death_and_ends_after_a_while_without_another() {
        let caution = Caution::default();
        assert!(caution.is_to_ask(false) && !caution.notice(0) && !caution.is_needed());
        assert!(!caution.is_to_ask(false), "nobody else can die");
        tokio::time::advance(PAUSE).await;
        assert!(caution.is_to_ask(true) && !caution.notice(1) && caution.is_needed());
        tokio::time::advance(WATCH_TIME - PAUSE).await;
        assert!(!caution.notice(2) && caution.is_needed(), "another");
        tokio::time::advance(WATCH_TIME - PAUSE).await;
        assert!(!caution.notice(2) && caution.is_needed());
        tokio::time::advance(PAUSE).await;
        assert!(caution.is_to_ask(false) && caution.notice(2) && !caution.is_needed());
    }
}
