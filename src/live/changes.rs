//! Which threads change, for those who watch all threads of a tenant. What has become of one, they read.

use tokio::sync::broadcast;

use super::Hub;
use crate::domain::ids::{TenantPk, ThreadId, ThreadPk};

/// Changes that wait for one reader at most; one that falls behind is told so and reads everything again.
pub(super) const WAITING: usize = 1024;

/// A thread that was created, changed or erased.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub tenant: TenantPk,
    pub pk: ThreadPk,
    pub thread_id: ThreadId,
}

impl Hub {
    /// Tells of a thread that was committed just now. Costs nothing while nobody watches.
    pub fn changed(&self, tenant: TenantPk, pk: ThreadPk, thread_id: &ThreadId) {
        if self.changes.receiver_count() > 0 {
            let change = Change { tenant, pk, thread_id: thread_id.clone() };
            // Whoever watched may have left meanwhile.
            self.changes.send(change).ok();
        }
    }

    /// Everything that changes from now on, of all tenants.
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }
}
