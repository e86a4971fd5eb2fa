//! Change notifications of servers: a counter per owner of what its agents are offered, and a wake-up for subscribers.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::domain::ids::TenantPk;

/// Shared by the catalog and its servers.
#[derive(Clone, Debug)]
pub(super) struct ChangeCounts {
    /// By owner (`None`: the operator). A count never decreases, even when the last server of its owner is removed.
    counts: Arc<Mutex<HashMap<Option<TenantPk>, u64>>>,
    wake: watch::Sender<u64>,
}

impl ChangeCounts {
    pub(super) fn new() -> Self {
        Self { counts: Arc::default(), wake: watch::Sender::new(0) }
    }

    /// Counts that a server of this owner was added, removed or lists other tools, and wakes subscribers.
    pub(super) fn count(&self, owner: Option<TenantPk>) {
        *self.counts.lock().entry(owner).or_default() += 1;
        self.wake();
    }

    /// Wakes subscribers after a change of a server's state that leaves its tools unchanged.
    pub(super) fn wake(&self) {
        self.wake.send_modify(|wakes| *wakes += 1);
    }

    /// Grows whenever the servers that a tenant may use, its own and the operator's, may offer something else.
    pub(super) fn of_tenant(&self, tenant: TenantPk) -> u64 {
        let counts = self.counts.lock();
        [None, Some(tenant)].iter().filter_map(|owner| counts.get(owner)).sum()
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.wake.subscribe()
    }
}
