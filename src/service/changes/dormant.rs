//! Threads with an open question that were not active recently. Another process may change them without notifying this one,
//! so they are polled.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use crate::domain::ids::{ThreadId, ThreadPk};
use crate::store::{self, Reads};

/// How many of them one poll checks. More of them take several polls.
const MAX_PER_POLL: usize = 1_000;

/// These threads, with their versions at the last check.
#[derive(Default)]
pub(super) struct DormantThreads {
    known: BTreeMap<ThreadPk, (ThreadId, i64)>,
    /// The last thread that was checked.
    last_checked: Option<ThreadPk>,
}

impl DormantThreads {
    /// Sets which threads have an open question and were not active recently. `left` holds the known versions of some of
    /// them.
    pub(super) async fn set_asking(
        &mut self,
        store: &dyn Reads,
        asking: &[ThreadPk],
        left: &HashMap<ThreadPk, (ThreadId, i64)>,
    ) -> store::Result<()> {
        let before = std::mem::take(&mut self.known);
        let mut new = Vec::new();
        for pk in asking {
            match left.get(pk).or(before.get(pk)) {
                Some(known) => _ = self.known.insert(*pk, known.clone()),
                None => new.push(*pk),
            }
        }
        for some in new.chunks(MAX_PER_POLL) {
            for row in store.threads_by_pk(some).await? {
                self.known.insert(row.pk, (row.thread_id, row.fence.version));
            }
        }
        Ok(())
    }

    /// Checks the next threads, and returns those that changed or were deleted.
    pub(super) async fn changed(&mut self, store: &dyn Reads) -> store::Result<Vec<(ThreadPk, ThreadId)>> {
        let from = self.last_checked.map_or(Bound::Unbounded, Bound::Excluded);
        let next: Vec<ThreadPk> =
            self.known.range((from, Bound::Unbounded)).take(MAX_PER_POLL).map(|(pk, _)| *pk).collect();
        let versions: HashMap<ThreadPk, i64> =
            store.thread_versions(&next).await?.into_iter().map(|one| (one.pk, one.version)).collect();
        self.last_checked = next.last().filter(|_| next.len() == MAX_PER_POLL).copied();
        let mut changed = Vec::new();
        for pk in next {
            let Some((id, version)) = self.known.get_mut(&pk) else { continue };
            match versions.get(&pk) {
                Some(now) if now == version => {}
                Some(now) => {
                    *version = *now;
                    changed.push((pk, id.clone()));
                }
                None => changed.push((pk, id.clone())),
            }
        }
        Ok(changed)
    }
}
