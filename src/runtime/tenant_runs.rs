//! How many runs each tenant has under way in this process, and whether another may begin. Which threads have one that waits
//! for that is known of the store: nothing is kept in memory for them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::actor::Actor;
use super::shared::Shared;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::domain::run::RunStatus;
use crate::domain::run_limits::{RUN_LIMITS_ID, TenantRunLimits};
use crate::engine::RunAdmission;
use crate::engine::event::Event;
use crate::store;
use crate::store::documents::DocumentKind;

/// How many runs of a tenant are begun at one look at most.
const BATCH: usize = 256;

#[derive(Default)]
pub(super) struct TenantRuns(Mutex<Known>);

/// How many runs a tenant may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunLimits {
    /// Under way in this process; `None`: as many as it likes.
    pub(crate) running: Option<usize>,
    /// Threads whose next run waits for that.
    pub(crate) queued: u32,
}

#[derive(Default)]
struct Known {
    /// How often a thread was said to wait.
    said: u64,
    tenants: HashMap<TenantPk, Tenant>,
}

#[derive(Default)]
struct Tenant {
    running: usize,
    /// Some of its threads wait: the last time that it was said.
    waits: Option<u64>,
}

/// Counts as a run of the tenant until it is dropped.
pub(super) struct RunPlace {
    shared: Arc<Shared>,
    tenant: TenantPk,
}

impl Drop for RunPlace {
    fn drop(&mut self) {
        if self.shared.tenant_runs.end(self.tenant) {
            self.shared.alarm.sooner(self.shared.now());
        }
    }
}

impl TenantRuns {
    /// Whether another run of the tenant may begin, of so many at most; it counts from then on. Those that have waited go
    /// first.
    fn begin(&self, tenant: TenantPk, most: Option<usize>, has_waited: bool) -> bool {
        let mut known = self.0.lock();
        let tenant = known.tenants.entry(tenant).or_default();
        let has_room = |most| tenant.running < most && (has_waited || tenant.waits.is_none());
        let may = most.is_none_or(has_room);
        tenant.running += usize::from(may);
        may
    }

    /// A run goes on: it counts, whether or not there is room.
    fn go_on(&self, tenant: TenantPk) {
        self.0.lock().tenants.entry(tenant).or_default().running += 1;
    }

    /// `true`: others wait for that.
    fn end(&self, tenant: TenantPk) -> bool {
        let mut known = self.0.lock();
        let Some(ended) = known.tenants.get_mut(&tenant) else { return false };
        ended.running = ended.running.saturating_sub(1);
        let (running, waits) = (ended.running, ended.waits.is_some());
        if running == 0 && !waits {
            known.tenants.remove(&tenant);
        }
        waits
    }

    /// A thread waits, as the store has it from now on; `true`: there is room for its run already.
    fn wait(&self, tenant: TenantPk, most: Option<usize>) -> bool {
        let mut known = self.0.lock();
        known.said += 1;
        let said = known.said;
        let tenant = known.tenants.entry(tenant).or_default();
        tenant.waits = Some(said);
        most.is_none_or(|most| tenant.running < most)
    }

    fn said(&self) -> u64 {
        self.0.lock().said
    }

    /// The store has threads of these that wait, and of no others. What was said since `before` it may not have shown yet.
    fn learn(&self, waiting: &[TenantPk], before: u64) {
        let mut known = self.0.lock();
        for pk in waiting {
            known.tenants.entry(*pk).or_default().waits.get_or_insert(before);
        }
        known.tenants.retain(|pk, tenant| {
            tenant.waits = tenant.waits.filter(|said| *said > before || waiting.contains(pk));
            tenant.running > 0 || tenant.waits.is_some()
        });
    }

    pub(super) fn running(&self, tenant: TenantPk) -> usize {
        self.0.lock().tenants.get(&tenant).map_or(0, |tenant| tenant.running)
    }

    /// For how many more runs of the tenant there is room beside so many.
    fn room(&self, tenant: TenantPk, most: Option<usize>) -> usize {
        most.map_or(BATCH, |most| most.saturating_sub(self.running(tenant)).min(BATCH))
    }
}

impl Actor {
    /// Takes a place for the thread's next run if it may begin with what these events are about. It counts at once, until it
    /// is seen what becomes of it ([`Self::count_run`]).
    pub(super) async fn try_begin_run(&mut self, events: &[Arc<Event>]) -> store::Result<RunAdmission> {
        let Some(loaded) = self.loaded.as_ref().filter(|_| self.place.is_none()) else { return Ok(RunAdmission::Now) };
        let (tenant, has_waited) = (loaded.row.tenant, loaded.machine.waits_to_begin());
        let RunLimits { running, queued: most } = self.shared.run_limits(tenant);
        if self.shared.tenant_runs.begin(tenant, running, has_waited) {
            self.place = Some(RunPlace { shared: self.shared.clone(), tenant });
            return Ok(RunAdmission::Now);
        }
        let is_new = !has_waited && loaded.machine.run().is_none();
        let asks = || events.iter().any(|event| matches!(**event, Event::Asked { .. }));
        if is_new && asks() && self.shared.store.count_to_begin(tenant, most).await? >= most {
            return Ok(RunAdmission::Refused { most: most as usize });
        }
        Ok(RunAdmission::Later)
    }

    /// A run that is under way in this process counts, and no other. Where the thread has to be read again, as its commit
    /// failed, its run goes on counting until then.
    pub(super) fn count_run(&mut self) {
        let Some(loaded) = &self.loaded else { return };
        let is_running = loaded.machine.run().is_some_and(|run| run.status == RunStatus::Running);
        if !(is_running && self.is_ours(loaded)) {
            self.place = None;
            return;
        }
        if self.place.is_none() {
            self.shared.tenant_runs.go_on(loaded.row.tenant);
            self.place = Some(RunPlace { shared: self.shared.clone(), tenant: loaded.row.tenant });
        }
    }

    /// The thread's next run waits: it is begun as soon as there is room.
    pub(super) fn announce_wait(&self) {
        let waiting = self.loaded.as_ref().filter(|loaded| loaded.machine.waits_to_begin());
        let has_room = |tenant| self.shared.tenant_runs.wait(tenant, self.shared.run_limits(tenant).running);
        if waiting.is_some_and(|loaded| has_room(loaded.row.tenant)) {
            self.shared.alarm.sooner(self.shared.now());
        }
    }
}

impl Shared {
    /// Those of the settings, where the tenant has none of its own.
    pub(super) fn run_limits(&self, tenant: TenantPk) -> RunLimits {
        let general = &self.config.limits.tenant;
        let own = self.documents.get(tenant, DocumentKind::RunLimits, RUN_LIMITS_ID);
        let own: TenantRunLimits = own.and_then(|document| document.legible().ok()).unwrap_or_default();
        RunLimits {
            running: own.running_runs.map(|most| most as usize).or(general.running_runs),
            queued: own.queued_runs.unwrap_or(general.queued_runs),
        }
    }

    /// Threads whose next run waited until it may begin, and now may.
    pub(super) async fn threads_to_begin(&self) -> store::Result<Vec<ThreadPk>> {
        let before = self.tenant_runs.said();
        let tenants = self.store.tenants_to_begin().await?;
        self.tenant_runs.learn(&tenants, before);
        let mut found = Vec::new();
        for tenant in tenants {
            let room = self.tenant_runs.room(tenant, self.run_limits(tenant).running);
            if room > 0 {
                // Those that are not to be woken now are skipped.
                let limit = self.wake_backoff.limit();
                let waiting = self.store.threads_to_begin(tenant, limit).await?;
                found.extend(waiting.into_iter().filter(|pk| self.wake_backoff.is_free(*pk)).take(room));
            }
        }
        Ok(found)
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
            runs.begin(ONE, Some(1), false)
                && !runs.begin(ONE, Some(1), false)
                && runs.begin(TenantPk(2), Some(1), false)
        );
        assert!(!runs.wait(ONE, Some(1)), "there is no room yet");
        assert!(runs.end(ONE), "it is looked for those that wait");
        assert!(!runs.begin(ONE, Some(1), false), "one that comes now is not of them");
        assert!(runs.begin(ONE, Some(1), true));
        runs.learn(&[], runs.said());
        assert!(!runs.end(ONE) && runs.begin(ONE, Some(1), false));
    }

    #[test]
    fn what_began_without_a_limit_counts_as_soon_as_there_is_one() {
        let runs = TenantRuns::default();
        assert!(runs.begin(ONE, None, false) && runs.begin(ONE, None, false));
        assert!(!runs.begin(ONE, Some(2), false) && runs.begin(ONE, Some(3), false));
    }

    #[test]
    fn what_was_said_since_the_store_was_asked_is_not_forgotten() {
        let runs = TenantRuns::default();
        let before = runs.said();
        assert!(runs.wait(ONE, Some(1)), "there is room: whoever waits is begun at once");
        runs.learn(&[], before);
        assert!(!runs.begin(ONE, Some(1), false));
        runs.learn(&[], runs.said());
        assert!(runs.begin(ONE, Some(1), false));
    }

    #[test]
    fn what_goes_on_counts_beyond_the_room() {
        let runs = TenantRuns::default();
        runs.go_on(ONE);
        runs.go_on(ONE);
        assert_eq!(runs.room(ONE, Some(1)), 0);
        runs.end(ONE);
        assert!(!runs.begin(ONE, Some(1), true), "one of them still counts");
        runs.end(ONE);
        assert_eq!((runs.room(ONE, Some(1)), runs.room(ONE, None)), (1, BATCH));
    }
}
