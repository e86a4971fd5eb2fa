//! A thread in memory, as its actor has it. `load.rs` reads it from the store. The methods that belong to one part are in
//! its file.

use crate::domain::Millis;
use crate::domain::thread::{ThreadProfile, ThreadStatus};
use crate::engine::history::fold::Fold;
use crate::engine::step::{Row, RowKind};
use crate::engine::{Loaded, Machine};
use crate::runtime::outgoing::{Receivers, TraceProgress};
use crate::store::{Commit, LeaseChange, NewThread, ThreadRow};

pub(in crate::runtime) struct LoadedThread {
    pub(in crate::runtime) row: ThreadRow,
    pub(in crate::runtime) machine: Box<dyn Machine>,
    /// The thread does not exist yet: the first commit creates it.
    pub(super) new: Option<NewThread>,
    /// The full shapes as of the last observation that was made for subscribers; only while there are some. It is ahead of the
    /// log while a commit is under way. A commit that fails drops the thread, and this with it.
    pub(super) fold: Option<Fold>,
    pub(in crate::runtime) receivers: Receivers,
    pub(in crate::runtime) trace_progress: TraceProgress,
}

impl ThreadRow {
    /// What the machine of the thread is built from; `rows` are of the same read.
    pub(in crate::runtime) fn loaded_with(&self, rows: Vec<Row>) -> Loaded {
        Loaded { thread_id: self.thread_id.clone(), head: self.head.clone(), rows, last_seq: self.last_seq }
    }
}

/// The changes of a commit to the thread's row in memory.
pub(super) struct RowAfterCommit {
    lease: LeaseChange,
    status: ThreadStatus,
    wake_at: Option<Millis>,
    floor: i64,
    last_seq: i64,
    now: Millis,
    profile: Option<Box<ThreadProfile>>,
    /// Those that are kept beside the machine.
    rows: Vec<Row>,
}

impl RowAfterCommit {
    pub(super) fn of(commit: &Commit) -> Self {
        let rows = commit.rows.iter().filter(|row| matches!(row.kind, RowKind::Push | RowKind::Traced));
        Self {
            lease: commit.lease.clone(),
            status: commit.status,
            wake_at: commit.wake_at,
            floor: commit.floor,
            last_seq: commit.last_seq + commit.records.len() as i64,
            now: commit.now,
            profile: commit.profile.clone(),
            rows: rows.cloned().collect(),
        }
    }

    pub(super) fn apply_to(self, loaded: &mut LoadedThread) {
        loaded.new = None;
        loaded.receivers.apply_rows(&self.rows);
        loaded.trace_progress.apply_rows(&self.rows);
        let row = &mut loaded.row;
        row.fence.version += 1;
        match self.lease {
            LeaseChange::Keep => {}
            LeaseChange::Claim { lease, replica } => {
                row.fence.epoch += 1;
                row.fence.lease = Some(lease);
                row.replica = Some(replica);
                row.is_owned = true;
            }
            LeaseChange::Release => {
                row.fence.lease = None;
                row.replica = None;
                row.is_owned = false;
            }
        }
        row.status = self.status;
        row.wake_at = self.wake_at;
        row.floor = self.floor;
        row.last_seq = self.last_seq;
        row.updated_at = self.now;
        if let Some(profile) = self.profile {
            row.profile = *profile;
        }
    }
}
