//! Threads that were not active of late, and that another process may change all the same without a word to this one: those
//! that ask somebody something.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use crate::domain::ids::{ThreadId, ThreadPk};
use crate::store::{Result, Store};

/// So many are looked at in one look; more of them take several.
const AT_ONCE: usize = 1_000;

/// As they stood when they were looked at last.
#[derive(Default)]
pub(super) struct Quiet {
    known: BTreeMap<ThreadPk, (ThreadId, i64)>,
    /// The last that was looked at.
    behind: Option<ThreadPk>,
}

impl Quiet {
    /// These and no others ask, and were not active of late. What is known of some of them is in `left`.
    pub(super) async fn set_asking(
        &mut self,
        store: &dyn Store,
        asking: &[ThreadPk],
        left: &HashMap<ThreadPk, (ThreadId, i64)>,
    ) -> Result<()> {
        let before = std::mem::take(&mut self.known);
        let mut new = Vec::new();
        for pk in asking {
            match left.get(pk).or(before.get(pk)) {
                Some(known) => _ = self.known.insert(*pk, known.clone()),
                None => new.push(*pk),
            }
        }
        for some in new.chunks(AT_ONCE) {
            for row in store.threads_by_pk(some).await? {
                self.known.insert(row.pk, (row.thread_id, row.fence.version));
            }
        }
        Ok(())
    }

    /// Those of the next ones that changed, or are gone.
    pub(super) async fn changed(&mut self, store: &dyn Store) -> Result<Vec<(ThreadPk, ThreadId)>> {
        let from = self.behind.map_or(Bound::Unbounded, Bound::Excluded);
        let next: Vec<ThreadPk> = self.known.range((from, Bound::Unbounded)).take(AT_ONCE).map(|(pk, _)| *pk).collect();
        let marks: HashMap<ThreadPk, i64> =
            store.marks(&next).await?.into_iter().map(|mark| (mark.pk, mark.version)).collect();
        self.behind = next.last().filter(|_| next.len() == AT_ONCE).copied();
        let mut changed = Vec::new();
        for pk in next {
            let Some((id, version)) = self.known.get_mut(&pk) else { continue };
            match marks.get(&pk) {
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
