//! What is new of servers: whose agents may be offered something else, and a wake-up for who follows that.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::domain::ids::TenantPk;

/// Shared by the catalog and its servers.
#[derive(Clone, Debug)]
pub(super) struct News {
    /// By owner (`None`: the operator). A count never goes back, also when the last server of its owner has gone.
    counts: Arc<Mutex<HashMap<Option<TenantPk>, u64>>>,
    wake: watch::Sender<u64>,
}

impl News {
    pub(super) fn new() -> Self {
        Self { counts: Arc::default(), wake: watch::Sender::new(0) }
    }

    /// Counts that a server of this owner came, went, or lists other tools, and wakes.
    pub(super) fn tell(&self, owner: Option<TenantPk>) {
        *self.counts.lock().entry(owner).or_default() += 1;
        self.wake();
    }

    /// Wakes who follows, as a server stands otherwise: what it offers is the same.
    pub(super) fn wake(&self) {
        self.wake.send_modify(|wakes| *wakes += 1);
    }

    /// Grows whenever the servers that a tenant sees, its own and the operator's, may offer something else.
    pub(super) fn of(&self, tenant: TenantPk) -> u64 {
        let counts = self.counts.lock();
        [None, Some(tenant)].iter().filter_map(|owner| counts.get(owner)).sum()
    }

    pub(super) fn wakes(&self) -> watch::Receiver<u64> {
        self.wake.subscribe()
    }
}
