//! The slot of the thread's run among the runs that its tenant has under way: taken before a decision that may begin one,
//! kept while the run is under way here.

use std::sync::Arc;

use super::Actor;
use super::loaded::LoadedThread;
use crate::domain::run::RunStatus;
use crate::engine::RunAdmission;
use crate::engine::event::Event;
use crate::engine::step::{Row, RowKind};
use crate::runtime::tenant_runs::RunLimits;
use crate::store;

impl Actor {
    /// Takes a slot for the thread's next run if these events may begin one. [`Self::count_run`] keeps or frees it after the
    /// decision.
    pub(super) async fn try_begin_run(&mut self, events: &[Arc<Event>]) -> store::Result<RunAdmission> {
        let Some(loaded) = self.loaded.as_ref().filter(|_| self.run_slot.is_none()) else {
            return Ok(RunAdmission::Now);
        };
        let (tenant, has_waited) = (loaded.row.tenant, loaded.machine.waits_to_begin());
        let RunLimits { running, queued: most } = self.shared.run_limits(tenant);
        if let Some(slot) = self.shared.try_begin_run(tenant, running, has_waited) {
            self.run_slot = Some(slot);
            return Ok(RunAdmission::Now);
        }
        let is_new = !has_waited && loaded.machine.run().is_none();
        let asks = || events.iter().any(|event| matches!(**event, Event::Asked { .. }));
        if is_new && asks() && self.shared.store.count_to_begin(tenant, most).await? >= most {
            return Ok(RunAdmission::Refused { most: most as usize });
        }
        Ok(RunAdmission::Later)
    }

    /// Counts the thread's run if it is under way in this process, and frees the slot otherwise. While the thread is not loaded
    /// after a failed commit, the slot stays as it is.
    pub(super) fn count_run(&mut self) {
        let Some(loaded) = &self.loaded else { return };
        let is_running = loaded.machine.run().is_some_and(|run| run.status == RunStatus::Running);
        if !(is_running && self.is_ours(loaded)) {
            self.run_slot = None;
            return;
        }
        if self.run_slot.is_none() {
            self.run_slot = Some(self.shared.count_running(loaded.row.tenant));
        }
    }

    /// Notes that the thread's next run waits, if it does, so that it begins when there is room.
    pub(super) fn note_waiting(&self) {
        let waiting = self.loaded.as_ref().filter(|loaded| loaded.machine.waits_to_begin());
        let has_room = |tenant| self.shared.tenant_runs.note_waiting(tenant, self.shared.run_limits(tenant).running);
        if waiting.is_some_and(|loaded| has_room(loaded.row.tenant)) {
            self.shared.sweeper.look_by(self.shared.now());
        }
    }

    /// The row to store if the stored one says that the thread's next run waits, and none does: an older release, which does not
    /// know such rows, ended that run. The thread would be woken for ever, in the place of one that waits.
    pub(super) async fn outdated_wait(&self, loaded: &LoadedThread) -> store::Result<Option<Row>> {
        if loaded.machine.waits_to_begin() {
            return Ok(None);
        }
        let stored = self.shared.store.row(self.pk, RowKind::WaitsToBegin, "").await?;
        Ok(stored.filter(|row| row.ord > 0).map(|row| Row { ord: 0, ..row }))
    }
}
