//! Notices that the database went back to an earlier state while this process ran, as after a failover to a standby that
//! lacked the last commits.

use std::collections::HashSet;

use parking_lot::Mutex;

use super::shared::Shared;
use crate::domain::ids::ThreadPk;
use crate::store::ThreadRow;

/// The threads that were reported.
#[derive(Default)]
pub(super) struct WentBack(Mutex<HashSet<ThreadPk>>);

impl Shared {
    /// Reports a thread, as it is stored, of which this process has known a later version. Each is reported once.
    pub(super) fn report_if_went_back(&self, stored: &ThreadRow, known_version: i64) {
        let version = stored.fence.version;
        if version >= known_version || !self.went_back.0.lock().insert(stored.pk) {
            return;
        }
        metrics::counter!("pes_threads_went_back_total").increment(1);
        tracing::error!(
            threadId = %stored.thread_id,
            version,
            known_version,
            "the database went back to an earlier state: commits of this thread that were acknowledged are gone, and calls that \
             they began may be made again. If another database server has taken over, or a backup was restored, stop all \
             replicas, run `pes restore --adopt`, and start them again"
        );
    }
}
