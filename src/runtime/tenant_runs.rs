//! How many runs each tenant has under way in this process, and whether another may begin. The threads with a waiting run are
//! only in the store; they take no memory here.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::shared::Shared;
use super::sweep::CRASHES_OF_SUSPECT;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::domain::run_limits::{RUN_LIMITS_ID, TenantRunLimits};
use crate::store::documents::DocumentKind;
use crate::store::{self, Claimable};

/// Bounds the runs of a tenant that one look begins.
const MAX_BEGUN: usize = 256;

#[derive(Default)]
pub(super) struct TenantRuns(Mutex<State>);

/// How many runs a tenant may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunLimits {
    /// Under way in this process; `None`: unlimited.
    pub(crate) running: Option<usize>,
    /// Threads whose next run waits to begin.
    pub(crate) queued: u32,
}

/// Threads whose next run may begin.
pub(super) struct ThreadsToBegin {
    pub(super) sound: Vec<ThreadPk>,
    /// Those that are suspected of crashing processes (see `sweep/probation.rs`): which of them are read now is decided there.
    pub(super) suspects: Vec<Claimable>,
}

#[derive(Default)]
struct State {
    /// How often it was noted that a thread waits.
    notes: u64,
    tenants: HashMap<TenantPk, TenantState>,
}

#[derive(Default)]
struct TenantState {
    running: usize,
    /// The number of the last such note, if some of its threads wait.
    last_waiting: Option<u64>,
}

/// Counts as a run of the tenant until it is dropped.
pub(super) struct RunSlot {
    shared: Arc<Shared>,
    tenant: TenantPk,
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        if self.shared.tenant_runs.end(self.tenant) {
            self.shared.sweeper.look_by(self.shared.now());
        }
    }
}

impl TenantRuns {
    /// Counts another run of the tenant if there is room, with priority for threads that have waited. `max` bounds the runs.
    fn try_begin(&self, tenant: TenantPk, max: Option<usize>, has_waited: bool) -> bool {
        let mut state = self.0.lock();
        let tenant = state.tenants.entry(tenant).or_default();
        let has_room = |max| tenant.running < max && (has_waited || tenant.last_waiting.is_none());
        let may = max.is_none_or(has_room);
        tenant.running += usize::from(may);
        may
    }

    /// Counts a run that is under way already, whether or not there is room.
    fn add_running(&self, tenant: TenantPk) {
        self.0.lock().tenants.entry(tenant).or_default().running += 1;
    }

    /// Ends the count of a run; `true`: other threads of the tenant wait.
    fn end(&self, tenant: TenantPk) -> bool {
        let mut state = self.0.lock();
        let Some(ended) = state.tenants.get_mut(&tenant) else { return false };
        ended.running = ended.running.saturating_sub(1);
        let (running, waits) = (ended.running, ended.last_waiting.is_some());
        if running == 0 && !waits {
            state.tenants.remove(&tenant);
        }
        waits
    }

    /// Records that a thread waits, according to a commit; `true`: there is room for its run already.
    pub(super) fn note_waiting(&self, tenant: TenantPk, max: Option<usize>) -> bool {
        let mut state = self.0.lock();
        state.notes += 1;
        let number = state.notes;
        let tenant = state.tenants.entry(tenant).or_default();
        tenant.last_waiting = Some(number);
        max.is_none_or(|max| tenant.running < max)
    }

    /// The number of the last note.
    fn last_note(&self) -> u64 {
        self.0.lock().notes
    }

    /// Takes in the tenants that have waiting threads in the store. Notes after `before` are kept: the store may not
    /// have shown them yet.
    fn sync(&self, waiting: &[TenantPk], before: u64) {
        let mut state = self.0.lock();
        for pk in waiting {
            state.tenants.entry(*pk).or_default().last_waiting.get_or_insert(before);
        }
        state.tenants.retain(|pk, tenant| {
            tenant.last_waiting = tenant.last_waiting.filter(|last| *last > before || waiting.contains(pk));
            tenant.running > 0 || tenant.last_waiting.is_some()
        });
    }

    pub(super) fn running(&self, tenant: TenantPk) -> usize {
        self.0.lock().tenants.get(&tenant).map_or(0, |tenant| tenant.running)
    }

    /// How many more runs of the tenant may begin.
    fn room(&self, tenant: TenantPk, max: Option<usize>) -> usize {
        max.map_or(MAX_BEGUN, |max| max.saturating_sub(self.running(tenant)).min(MAX_BEGUN))
    }
}

impl Shared {
    /// Begins a run of the tenant if there is room, with priority for threads that have waited. `max` bounds the runs.
    pub(super) fn try_begin_run(
        self: &Arc<Self>,
        tenant: TenantPk,
        max: Option<usize>,
        has_waited: bool,
    ) -> Option<RunSlot> {
        let may_begin = self.tenant_runs.try_begin(tenant, max, has_waited);
        may_begin.then(|| RunSlot { shared: self.clone(), tenant })
    }

    /// Counts a run that is under way already, whether or not there is room.
    pub(super) fn count_running(self: &Arc<Self>, tenant: TenantPk) -> RunSlot {
        self.tenant_runs.add_running(tenant);
        RunSlot { shared: self.clone(), tenant }
    }

    /// The tenant's limits; those of the settings where it has none of its own.
    pub(super) fn run_limits(&self, tenant: TenantPk) -> RunLimits {
        let general = &self.config.limits.tenant;
        let own = self.documents.get(tenant, DocumentKind::RunLimits, RUN_LIMITS_ID);
        let own: TenantRunLimits = own.and_then(|document| document.legible().ok()).unwrap_or_default();
        RunLimits {
            running: own.running_runs.map(|most| most as usize).or(general.running_runs),
            queued: own.queued_runs.unwrap_or(general.queued_runs),
        }
    }

    /// Threads whose next run has waited and may begin now. While no process has crashed lately, there are no suspects.
    pub(super) async fn threads_to_begin(&self) -> store::Result<ThreadsToBegin> {
        let before = self.tenant_runs.last_note();
        let tenants = self.store.tenants_to_begin().await?;
        self.tenant_runs.sync(&tenants, before);
        let mut found = Vec::new();
        for tenant in tenants {
            let room = self.tenant_runs.room(tenant, self.run_limits(tenant).running);
            if room > 0 {
                // Threads in backoff are skipped, so more are read.
                let limit = self.sweeper.backoff.limit();
                let waiting = self.store.threads_to_begin(tenant, limit).await?;
                found.extend(waiting.into_iter().filter(|pk| self.sweeper.backoff.may_wake(*pk)).take(room));
            }
        }
        if found.is_empty() || !self.crash_watch.is_on() {
            return Ok(ThreadsToBegin { sound: found, suspects: Vec::new() });
        }
        // Without the threads themselves, which are not read before they are reserved.
        let mut suspects = self.store.crashed(&found).await?;
        suspects.retain(|thread| thread.crashes.times >= CRASHES_OF_SUSPECT);
        found.retain(|pk| suspects.iter().all(|suspect| suspect.pk != *pk));
        Ok(ThreadsToBegin { sound: found, suspects })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: TenantPk = TenantPk(1);

    #[test]
    fn those_that_have_waited_go_first() {
        let runs = TenantRuns::default();
        assert!(
            runs.try_begin(ONE, Some(1), false)
                && !runs.try_begin(ONE, Some(1), false)
                && runs.try_begin(TenantPk(2), Some(1), false)
        );
        assert!(!runs.note_waiting(ONE, Some(1)), "there is no room yet");
        assert!(runs.end(ONE), "it is looked for those that wait");
        assert!(!runs.try_begin(ONE, Some(1), false), "one that comes now is not of them");
        assert!(runs.try_begin(ONE, Some(1), true));
        runs.sync(&[], runs.last_note());
        assert!(!runs.end(ONE) && runs.try_begin(ONE, Some(1), false));
    }

    #[test]
    fn what_began_without_a_limit_counts_as_soon_as_there_is_one() {
        let runs = TenantRuns::default();
        assert!(runs.try_begin(ONE, None, false) && runs.try_begin(ONE, None, false));
        assert!(!runs.try_begin(ONE, Some(2), false) && runs.try_begin(ONE, Some(3), false));
    }

    #[test]
    fn what_was_said_since_the_store_was_asked_is_not_forgotten() {
        let runs = TenantRuns::default();
        let before = runs.last_note();
        assert!(runs.note_waiting(ONE, Some(1)), "there is room: whoever waits is begun at once");
        runs.sync(&[], before);
        assert!(!runs.try_begin(ONE, Some(1), false));
        runs.sync(&[], runs.last_note());
        assert!(runs.try_begin(ONE, Some(1), false));
    }

    #[test]
    fn what_goes_on_counts_beyond_the_room() {
        let runs = TenantRuns::default();
        runs.add_running(ONE);
        runs.add_running(ONE);
        assert_eq!(runs.room(ONE, Some(1)), 0);
        runs.end(ONE);
        assert!(!runs.try_begin(ONE, Some(1), true), "one of them still counts");
        runs.end(ONE);
        assert_eq!((runs.room(ONE, Some(1)), runs.room(ONE, None)), (1, MAX_BEGUN));
    }
}
