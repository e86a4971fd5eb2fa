//! Notifications that a thread changed, for readers that watch all threads of a tenant. A notification names the thread;
//! its new state is read from the store.

use tokio::sync::broadcast;

use super::Hub;
use crate::domain::ids::{TenantPk, ThreadId, ThreadPk};

/// Bounds the changes that wait for one reader. A reader that falls behind gets an error and reads everything again.
pub(super) const MAX_PENDING_CHANGES: usize = 1024;

/// A thread that was created, changed or erased.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub tenant: TenantPk,
    pub pk: ThreadPk,
    pub thread_id: ThreadId,
}

impl Hub {
    /// Publishes that a thread was just committed. Costs nothing while nobody watches.
    pub fn publish_change(&self, tenant: TenantPk, pk: ThreadPk, thread_id: &ThreadId) {
        if self.changes.receiver_count() > 0 {
            let change = Change { tenant, pk, thread_id: thread_id.clone() };
            // The last receiver may have been dropped meanwhile.
            self.changes.send(change).ok();
        }
    }

    /// All changes from now on, of all tenants.
    pub fn subscribe_to_changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }
}
