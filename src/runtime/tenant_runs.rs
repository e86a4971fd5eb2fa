//! How many runs each tenant has under way in this process, and whether another may begin. Which threads have one that waits
//! for that is known of the store: nothing is kept in memory for them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::actor::Actor;
use super::loaded::LoadedThread;
use super::shared::Shared;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::domain::run::RunStatus;
use crate::engine::Begin;
use crate::engine::event::Event;
use crate::store;

/// How many runs of a tenant are begun at one look at most.
const BATCH: usize = 256;

pub(super) struct TenantRuns {
    /// How many each may have; `None`: as many as it likes.
    most: Option<usize>,
    known: Mutex<Known>,
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
    pub(super) fn new(most: Option<usize>) -> Self {
        Self { most, known: Mutex::default() }
    }

    /// Whether another run of the tenant may begin, which counts from then on. Those that have waited go first.
    fn begin(&self, tenant: TenantPk, has_waited: bool) -> bool {
        let mut known = self.known.lock();
        let tenant = known.tenants.entry(tenant).or_default();
        let may = self.most.is_none_or(|most| tenant.running < most) && (has_waited || tenant.waits.is_none());
        tenant.running += usize::from(may);
        may
    }

    /// A run goes on: it counts, whether or not there is room.
    fn go_on(&self, tenant: TenantPk) {
        self.known.lock().tenants.entry(tenant).or_default().running += 1;
    }

    /// `true`: others wait for that.
    fn end(&self, tenant: TenantPk) -> bool {
        let mut known = self.known.lock();
        let Some(ended) = known.tenants.get_mut(&tenant) else { return false };
        ended.running = ended.running.saturating_sub(1);
        let (running, waits) = (ended.running, ended.waits.is_some());
        if running == 0 && !waits {
            known.tenants.remove(&tenant);
        }
        waits
    }

    /// A thread waits, as the store has it from now on; `true`: there is room for its run already.
    fn wait(&self, tenant: TenantPk) -> bool {
        let mut known = self.known.lock();
        known.said += 1;
        let said = known.said;
        let tenant = known.tenants.entry(tenant).or_default();
        tenant.waits = Some(said);
        self.most.is_none_or(|most| tenant.running < most)
    }

    fn said(&self) -> u64 {
        self.known.lock().said
    }

    /// The store has threads of these that wait, and of no others. What was said since `before` it may not have shown yet.
    fn learn(&self, waiting: &[TenantPk], before: u64) {
        let mut known = self.known.lock();
        for pk in waiting {
            known.tenants.entry(*pk).or_default().waits.get_or_insert(before);
        }
        known.tenants.retain(|pk, tenant| {
            tenant.waits = tenant.waits.filter(|said| *said > before || waiting.contains(pk));
            tenant.running > 0 || tenant.waits.is_some()
        });
    }

    /// For how many more runs of the tenant there is room.
    fn room(&self, tenant: TenantPk) -> usize {
        let running = self.known.lock().tenants.get(&tenant).map_or(0, |tenant| tenant.running);
        self.most.map_or(BATCH, |most| most.saturating_sub(running).min(BATCH))
    }
}

impl Actor {
    /// Whether the thread's next run may begin with what these events are about. It counts at once, until it is seen
    /// what becomes of it ([`Self::count_run`]).
    pub(super) async fn may_begin(&mut self, events: &[Arc<Event>]) -> store::Result<Begin> {
        let runs = &self.shared.tenant_runs;
        let Some(loaded) = self.loaded.as_ref().filter(|_| runs.most.is_some() && self.place.is_none()) else {
            return Ok(Begin::Now);
        };
        let (tenant, has_waited) = (loaded.row.tenant, loaded.machine.waits_to_begin());
        if runs.begin(tenant, has_waited) {
            self.place = Some(RunPlace { shared: self.shared.clone(), tenant });
            return Ok(Begin::Now);
        }
        let is_new = !has_waited && loaded.machine.run().is_none();
        if is_new && events.iter().any(|event| matches!(**event, Event::Asked { .. })) {
            let most = self.shared.config.limits.tenant.queued_runs;
            if self.shared.store.count_to_begin(tenant, most).await? >= most {
                return Ok(Begin::Refused { most: most as usize });
            }
        }
        Ok(Begin::Later)
    }

    /// A run that is under way in this process counts, and no other.
    pub(super) fn count_run(&mut self) {
        let runs = &self.shared.tenant_runs;
        let loaded = self.loaded.as_ref().filter(|loaded| runs.most.is_some() && self.is_ours(loaded));
        let is_running =
            |loaded: &&LoadedThread| loaded.machine.run().is_some_and(|run| run.status == RunStatus::Running);
        let Some(loaded) = loaded.filter(is_running) else {
            self.place = None;
            return;
        };
        if self.place.is_none() {
            runs.go_on(loaded.row.tenant);
            self.place = Some(RunPlace { shared: self.shared.clone(), tenant: loaded.row.tenant });
        }
    }

    /// The thread's next run waits: it is begun as soon as there is room.
    pub(super) fn announce_wait(&self) {
        let waiting = self.loaded.as_ref().filter(|loaded| loaded.machine.waits_to_begin());
        if waiting.is_some_and(|loaded| self.shared.tenant_runs.wait(loaded.row.tenant)) {
            self.shared.alarm.sooner(self.shared.now());
        }
    }
}

impl Shared {
    /// Threads whose next run waited until it may begin, and now may.
    pub(super) async fn threads_to_begin(&self) -> store::Result<Vec<ThreadPk>> {
        let before = self.tenant_runs.said();
        let tenants = self.store.tenants_to_begin().await?;
        self.tenant_runs.learn(&tenants, before);
        let mut found = Vec::new();
        for tenant in tenants {
            let room = self.tenant_runs.room(tenant);
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
        let runs = TenantRuns::new(Some(1));
        assert!(runs.begin(ONE, false) && !runs.begin(ONE, false) && runs.begin(TenantPk(2), false));
        assert!(!runs.wait(ONE), "there is no room yet");
        assert!(runs.end(ONE), "it is looked for those that wait");
        assert!(!runs.begin(ONE, false), "one that comes now is not of them");
        assert!(runs.begin(ONE, true));
        runs.learn(&[], runs.said());
        assert!(!runs.end(ONE) && runs.begin(ONE, false));
    }

    #[test]
    fn what_was_said_since_the_store_was_asked_is_not_forgotten() {
        let runs = TenantRuns::new(Some(1));
        let before = runs.said();
        assert!(runs.wait(ONE), "there is room: whoever waits is begun at once");
        runs.learn(&[], before);
        assert!(!runs.begin(ONE, false));
        runs.learn(&[], runs.said());
        assert!(runs.begin(ONE, false));
    }

    #[test]
    fn what_goes_on_counts_beyond_the_room() {
        let runs = TenantRuns::new(Some(1));
        runs.go_on(ONE);
        runs.go_on(ONE);
        assert_eq!(runs.room(ONE), 0);
        runs.end(ONE);
        assert!(!runs.begin(ONE, true), "one of them still counts");
        runs.end(ONE);
        assert_eq!((runs.room(ONE), TenantRuns::new(None).room(ONE)), (1, BATCH));
    }
}
