//! The lease under which a transition commits: the one that this process has, one that it claims with the commit, or none.

use std::sync::atomic::Ordering;

use super::Actor;
use super::loaded::LoadedThread;
use crate::domain::thread::ThreadStatus;
use crate::runtime::shared::Shared;
use crate::runtime::sweep::CRASHES_OF_SUSPECT;
use crate::store::{LeaseChange, ThreadRow};

/// What a commit does to the thread's lease, and under which epoch it is made.
pub(super) struct CommitLease {
    pub(super) change: LeaseChange,
    /// The epoch of our lease after the commit; `None`: we do not hold the lease.
    pub(super) epoch: Option<i64>,
}

/// When a commit claims the thread's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimMode {
    /// If nobody holds it. A lease of ours is kept, that of another process is respected.
    IfFree,
    /// Always, with a new epoch: effects that ran under the old one are lost.
    NewEpoch,
}

impl Actor {
    /// Whether this process holds the lease, according to the loaded row. The stored row may be newer.
    pub(super) fn is_ours(&self, loaded: &LoadedThread) -> bool {
        self.shared.holds(&loaded.row)
    }

    /// The lease under which the next commit is made. While draining, and while the runs of a restored database are being held
    /// back, nothing may become `Running`, so commits are made without the lease.
    pub(super) fn lease_for_commit(&self, loaded: &LoadedThread, mode: ClaimMode) -> CommitLease {
        let without = CommitLease { change: LeaseChange::Keep, epoch: None };
        if self.shared.stop.is_draining() || self.shared.is_restoring.load(Ordering::SeqCst) {
            return without;
        }
        let Some(current) = self.shared.lease_keeper.current_lease() else { return without };
        let epoch = loaded.row.fence.epoch;
        let is_free = !loaded.row.is_owned || loaded.row.replica == Some(current.replica);
        let claimed = CommitLease {
            change: LeaseChange::Claim { lease: current.id, replica: current.replica },
            epoch: Some(epoch + 1),
        };
        match (mode, loaded.row.fence.lease) {
            (ClaimMode::NewEpoch, _) => claimed,
            (ClaimMode::IfFree, Some(lease)) if lease == current.id => {
                CommitLease { change: LeaseChange::Keep, epoch: Some(epoch) }
            }
            (ClaimMode::IfFree, _) if is_free && !self.is_suspect(loaded) => claimed,
            (ClaimMode::IfFree, _) => without,
        }
    }

    /// Whether processes crashed repeatedly while the thread was loaded, and the sweeper has not reserved it for this process
    /// (see `sweep/probation.rs`). Such a thread is not claimed.
    fn is_suspect(&self, loaded: &LoadedThread) -> bool {
        let replica = self.shared.lease_keeper.current_lease().map(|lease| lease.replica);
        let is_quarantined = loaded.row.status == ThreadStatus::Quarantined;
        let is_admitted = loaded.row.replica == replica && !self.is_reserved;
        loaded.row.crashes.times >= CRASHES_OF_SUSPECT && !is_admitted && !is_quarantined
    }
}

impl Shared {
    /// Whether this process holds the thread's lease, according to this row.
    pub(super) fn holds(&self, row: &ThreadRow) -> bool {
        self.lease_keeper.current_lease().is_some_and(|lease| row.fence.lease == Some(lease.id))
    }
}
