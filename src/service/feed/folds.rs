//! A cache of folds of recently read logs, at fixed distances: a reader of a page continues from the nearest fold instead of
//! the beginning. A cached fold stays correct unless the database goes back to an earlier state, after which the numbers of
//! its observations are given again: the id of the last one tells. If that one is deleted, the base of the log is used
//! instead. If compaction has deleted the log beyond it, the observations that follow it are gone: the reader must check
//! that they can still be read. Shared by all readers, and bounded.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::domain::ids::{ObservationId, ThreadPk};
use crate::domain::observation::Observation;
use crate::engine::history::fold::Fold;

#[cfg(test)]
mod tests;

/// Observations between two folds of a log.
const FOLD_INTERVAL: i64 = 400;
/// The approximate size of all cached folds together, in bytes.
const MAX_BYTES: usize = 32 << 20;

#[derive(Default)]
pub(crate) struct FoldCache(Mutex<CachedFolds>);

#[derive(Default)]
struct CachedFolds {
    folds: HashMap<ThreadPk, BTreeMap<i64, Arc<CachedFold>>>,
    /// Thread, seq and size in bytes of each fold, oldest first.
    order: VecDeque<(ThreadPk, i64, usize)>,
    bytes: usize,
}

/// A fold, and the last observation of the log that it covers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CachedFold {
    pub(crate) seq: i64,
    pub(crate) id: ObservationId,
    pub(crate) fold: Fold,
}

impl FoldCache {
    /// The latest cached fold of the thread that covers the log up to `seq` or less.
    pub(crate) fn nearest(&self, pk: ThreadPk, seq: i64) -> Option<CachedFold> {
        let nearest = self.lock().folds.get(&pk)?.range(..=seq).next_back().map(|(_, cached)| cached.clone());
        nearest.map(|cached| CachedFold::clone(&cached))
    }

    /// Drops all folds of the thread.
    pub(crate) fn forget(&self, pk: ThreadPk) {
        let mut cached = self.lock();
        cached.folds.remove(&pk);
        let mut freed = 0;
        cached.order.retain(|(of, _, bytes)| {
            freed += if *of == pk { *bytes } else { 0 };
            *of != pk
        });
        cached.bytes -= freed;
    }

    /// Caches this fold, which covers the log up to this observation, unless one near it is cached.
    pub(crate) fn offer(&self, pk: ThreadPk, upto: &Observation, fold: &Fold) {
        let seq = upto.seq;
        let is_near = |cached: &CachedFolds| {
            let last = cached.folds.get(&pk).and_then(|of_thread| of_thread.range(..=seq).next_back());
            last.map_or(0, |(last, _)| *last) + FOLD_INTERVAL > seq
        };
        if is_near(&self.lock()) {
            return;
        }
        let bytes = fold.bytes();
        if bytes > MAX_BYTES {
            return;
        }
        let fold = Arc::new(CachedFold { seq, id: upto.id.clone(), fold: fold.clone() });
        let mut cached = self.lock();
        if !is_near(&cached) {
            cached.folds.entry(pk).or_default().insert(seq, fold);
            cached.order.push_back((pk, seq, bytes));
            cached.bytes += bytes;
            cached.shrink();
        }
    }

    fn lock(&self) -> MutexGuard<'_, CachedFolds> {
        self.0.lock()
    }
}

impl CachedFolds {
    /// Evicts the oldest folds until the rest fits.
    fn shrink(&mut self) {
        while self.bytes > MAX_BYTES
            && let Some((pk, seq, bytes)) = self.order.pop_front()
        {
            self.bytes -= bytes;
            if let Some(of_thread) = self.folds.get_mut(&pk) {
                of_thread.remove(&seq);
                if of_thread.is_empty() {
                    self.folds.remove(&pk);
                }
            }
        }
    }
}
