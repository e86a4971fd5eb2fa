//! What a wake-up of the sweeper does: it has the machine start what is due. If nothing is, the thread is stored so that
//! the sweeper does not find it again at once.

use super::Actor;
use super::claim::ClaimMode;
use super::command::{CommandError, CommitExtras};
use super::loaded::LoadedThread;
use crate::domain::Millis;
use crate::engine::event::{Event, SystemEvent};
use crate::store::LeaseChange;

/// How long a due thread is postponed after a wake-up that found nothing to do.
const WAKE_POSTPONEMENT: Millis = 1_000;

impl Actor {
    /// Has the machine start what is due: a timer is due, a slot is ready, or nobody owns the thread.
    pub(super) async fn look_after(&mut self) -> Result<(), CommandError> {
        // Timers that this process set are in memory. If the row here is not due, another process wrote the thread.
        let now = self.shared.now();
        let is_due = |loaded: &LoadedThread| loaded.row.wake_at.is_some_and(|at| at <= now);
        self.loaded = self.loaded.take().filter(|loaded| self.is_ours(loaded) && is_due(loaded));
        let woken = self.transition(&[Event::System(SystemEvent::Woke).into()], &CommitExtras::default()).await;
        match woken {
            Ok(mut decided) if decided.is_cancelling => self.finish_cancel(&mut decided).await,
            Ok(decided) if decided.is_noop => self.postpone().await,
            Ok(_) => Ok(()),
            Err(CommandError::Gone) => Ok(()),
            Err(refusal) => Err(refusal),
        }
    }

    /// After a wake-up that found nothing to do: postpones the timer, takes or releases the lease, or stores that no run waits
    /// to begin, so that the sweeper does not find the thread again at once.
    async fn postpone(&mut self) -> Result<(), CommandError> {
        let Some(loaded) = &self.loaded else { return Ok(()) };
        let now = self.shared.now();
        let lease = self.lease_for_commit(loaded, ClaimMode::IfFree);
        let is_kept = loaded.machine.is_active() || lease.epoch.is_none();
        let lease = if is_kept { lease.change } else { loaded.lease_when_idle() };
        let is_due = loaded.row.wake_at.is_some_and(|at| at <= now);
        let outdated_wait = self.outdated_wait(loaded).await?;
        if !is_due && lease == LeaseChange::Keep && outdated_wait.is_none() {
            return Ok(());
        }
        let mut commit = loaded.commit_with_lease(lease, now);
        commit.rows.extend(outdated_wait);
        if is_due {
            commit.wake_at = Some(now + WAKE_POSTPONEMENT);
        }
        self.write(commit).await.map(drop)
    }
}
