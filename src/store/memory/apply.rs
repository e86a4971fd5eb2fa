//! What a commit does, said once in plain code.

use std::collections::BTreeMap;

use super::{Kept, State};
use crate::domain::observation::Observation;
use crate::store::{Commit, Committed, Crashes, Fence, LeaseChange, NewThread, ThreadRow};

impl State {
    /// Judges first, writes after: a refused commit leaves no trace.
    pub(super) fn apply(&mut self, commit: Commit) -> Committed {
        let verdict = self.judge(&commit);
        if verdict == Committed::Done {
            if let Some(new) = &commit.create {
                self.threads.insert(commit.pk, Kept::new(&commit, new));
            }
            self.write(commit);
        }
        verdict
    }

    fn judge(&self, commit: &Commit) -> Committed {
        if commit.idempotency.as_ref().is_some_and(|row| self.is_taken(row)) {
            return Committed::Duplicate;
        }
        if let Some(new) = &commit.create {
            let is_taken = self.threads.contains_key(&commit.pk) || self.named(new.tenant, &new.thread_id).is_some();
            return match (is_taken, commit.fence == Fence::NEW && commit.last_seq == 0) {
                (true, _) => Committed::Exists,
                (false, true) => Committed::Done,
                (false, false) => Committed::Stale,
            };
        }
        let Some(kept) = self.threads.get(&commit.pk) else { return Committed::Stale };
        let may_claim = match commit.lease {
            LeaseChange::Keep | LeaseChange::Release => true,
            LeaseChange::Claim { replica, .. } => {
                kept.thread.replica == Some(replica) || !self.is_registered(kept.thread.replica)
            }
        };
        if kept.thread.fence == commit.fence && kept.thread.last_seq == commit.last_seq && may_claim {
            Committed::Done
        } else {
            Committed::Stale
        }
    }

    fn write(&mut self, commit: Commit) {
        let kept = self.threads.get_mut(&commit.pk).expect("judged: it is there");
        let is_activity = commit.is_activity() || kept.thread.status != commit.status;
        kept.thread.write(&commit, is_activity);
        for row in commit.rows {
            kept.rows.insert((row.kind, row.id.clone()), row);
        }
        let (id, tenant) = (kept.thread.thread_id.clone(), kept.thread.tenant);
        let numbered = commit.records.into_iter().zip(commit.last_seq + 1..);
        kept.observations.extend(numbered.map(|(record, seq)| Observation::of(record, id.clone(), seq)));
        if let Some(row) = commit.idempotency {
            self.idempotency.insert((row.tenant, row.scope.clone(), row.key.clone()), (commit.pk, row));
        }
        self.audit.extend(commit.audit);
        for delivery in commit.deliveries {
            self.post(commit.pk, tenant, commit.now, delivery);
        }
    }
}

impl Kept {
    fn new(commit: &Commit, new: &NewThread) -> Self {
        let thread = ThreadRow {
            pk: commit.pk,
            tenant: new.tenant,
            thread_id: new.thread_id.clone(),
            fence: Fence::NEW,
            replica: None,
            core: new.core.clone(),
            head: String::new(),
            status: commit.status,
            sheet: Default::default(),
            wake_at: None,
            floor: 0,
            last_seq: 0,
            min_seq: 1,
            is_owned: false,
            crashes: Crashes::default(),
            created_at: new.created_at,
            updated_at: commit.now,
            created_by: new.created_by.clone(),
        };
        Self { thread, rows: BTreeMap::new(), observations: Vec::new() }
    }
}

impl ThreadRow {
    fn write(&mut self, commit: &Commit, is_activity: bool) {
        self.fence.version += 1;
        match commit.lease {
            LeaseChange::Keep => {}
            LeaseChange::Claim { lease, replica } => {
                self.fence.epoch += 1;
                self.fence.lease = Some(lease);
                self.replica = Some(replica);
            }
            LeaseChange::Release => {
                self.fence.lease = None;
                self.replica = None;
            }
        }
        if let Some(head) = &commit.head {
            self.head = head.clone();
        }
        if let Some(sheet) = &commit.sheet {
            self.sheet = sheet.clone();
        }
        self.status = commit.status;
        self.wake_at = commit.wake_at;
        self.floor = commit.floor;
        self.last_seq += commit.records.len() as i64;
        if is_activity {
            self.updated_at = commit.now;
        }
    }
}
