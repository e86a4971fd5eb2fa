//! Reservations of threads at rest that are read for a request. For an hour after a crash of any process, an unowned thread is
//! reserved for this process before it is read. If reading it crashes the process, the crash is counted against that thread.
//! The first crash is counted against no thread at rest: reserving at every read would cost each request a commit. Due
//! threads are always reserved by the sweeper.

use super::Actor;
use super::command::CommandError;
use crate::domain::fault::Fault;
use crate::store::{LeaseChange, ThreadRow};

impl Actor {
    /// Reserves an unowned thread for this process before it is read, if a process crashed lately. A thread that caused too
    /// many crashes is quarantined instead.
    pub(super) async fn reserve_before_read(&mut self) -> Result<(), CommandError> {
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
    pub(super) async fn end_reservation(&mut self) -> Result<(), CommandError> {
        // A suspect (see `sweep/probation.rs`): the sweeper decides when it continues.
        if self.loaded.as_ref().is_some_and(|loaded| loaded.machine.is_active() && !self.is_ours(loaded)) {
            return Ok(());
        }
        self.release_reservation().await
    }

    /// Releases the sweeper's reservation after a wake-up if another process may be able to continue the thread: this one
    /// drains, or refuses it for another reason than an outage, as it does if it does not have the thread's core.
    pub(super) async fn leave_to_others(&mut self, looked: &Result<(), CommandError>) {
        let is_refused = looked.as_ref().is_err_and(|refusal| !refusal.is_outage());
        if self.shared.store.is_shared() && (is_refused || self.shared.stop.is_draining()) {
            let released = self.release_reservation().await;
            self.warn_if_reserved(released);
        }
    }

    pub(super) fn warn_if_reserved(&self, released: Result<(), CommandError>) {
        if let Err(refusal) = released {
            let (pk, thread) = (self.pk.0, self.thread_id());
            tracing::warn!(threadPk = pk, threadId = thread, ?refusal, "a thread stays reserved for this process");
        }
    }

    /// Releases the reservation of this thread, unless the thread was claimed under it.
    async fn release_reservation(&mut self) -> Result<(), CommandError> {
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
        let commit = row.commit_with_lease(LeaseChange::Release, self.shared.now());
        if self.loaded.is_some() {
            self.write(commit).await?;
        } else {
            self.shared.store.commit(commit).await?;
        }
        Ok(())
    }
}
