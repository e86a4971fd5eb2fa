//! A cache of folds of recently read logs, at fixed distances: a reader of a page continues from the nearest fold instead of
//! the beginning. A cached fold stays correct. But if compaction has deleted the log beyond it, the observations that follow
//! it are gone: the reader must check that they can still be read. Shared by all readers, and bounded.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::domain::ids::ThreadPk;
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
    folds: HashMap<ThreadPk, BTreeMap<i64, Arc<Fold>>>,
    /// Thread, seq and size in bytes of each fold, oldest first.
    order: VecDeque<(ThreadPk, i64, usize)>,
    bytes: usize,
}

impl FoldCache {
    /// The latest cached fold of the thread that covers the log up to `seq` or less, and the seq up to which it covers it.
    pub(crate) fn nearest(&self, pk: ThreadPk, seq: i64) -> Option<(i64, Fold)> {
        let nearest = self.lock().folds.get(&pk)?.range(..=seq).next_back().map(|(seq, fold)| (*seq, fold.clone()));
        nearest.map(|(seq, fold)| (seq, Fold::clone(&fold)))
    }

    /// Caches this fold, which covers the log up to `seq`, unless one near that seq is cached.
    pub(crate) fn offer(&self, pk: ThreadPk, seq: i64, fold: &Fold) {
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
        let fold = Arc::new(fold.clone());
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
