//! Folds of logs that were read not long ago, at fixed distances: a reader of a page begins at the nearest one instead
//! of the beginning. What was folded once stays true, but where the log was shortened past a fold, one cannot go on from it:
//! whoever takes one looks whether what follows it can still be read. Shared by all readers, and bounded.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::domain::ids::ThreadPk;
use crate::engine::history::fold::Fold;

#[cfg(test)]
mod tests;

/// Observations between two folds of a log.
const DISTANCE: i64 = 400;
/// Bytes of all folds together, roughly.
const ROOM: usize = 32 << 20;

#[derive(Default)]
pub(crate) struct Folds(Mutex<CachedFolds>);

#[derive(Default)]
struct CachedFolds {
    folds: HashMap<ThreadPk, BTreeMap<i64, Arc<Fold>>>,
    /// In the order in which they were made, with what each takes.
    order: VecDeque<(ThreadPk, i64, usize)>,
    bytes: usize,
}

impl Folds {
    /// The last fold of the thread that has nothing after `seq`, and the seq up to which it has everything.
    pub(crate) fn nearest(&self, pk: ThreadPk, seq: i64) -> Option<(i64, Fold)> {
        let nearest = self.lock().folds.get(&pk)?.range(..=seq).next_back().map(|(seq, fold)| (*seq, fold.clone()));
        nearest.map(|(seq, fold)| (seq, Fold::clone(&fold)))
    }

    /// Keeps this fold, which has everything up to `seq`, unless there is another near that seq.
    pub(crate) fn offer(&self, pk: ThreadPk, seq: i64, fold: &Fold) {
        let is_near = |kept: &CachedFolds| {
            let last = kept.folds.get(&pk).and_then(|of_thread| of_thread.range(..=seq).next_back());
            last.map_or(0, |(last, _)| *last) + DISTANCE > seq
        };
        if is_near(&self.lock()) {
            return;
        }
        let bytes = fold.bytes();
        if bytes > ROOM {
            return;
        }
        let fold = Arc::new(fold.clone());
        let mut kept = self.lock();
        if !is_near(&kept) {
            kept.folds.entry(pk).or_default().insert(seq, fold);
            kept.order.push_back((pk, seq, bytes));
            kept.bytes += bytes;
            kept.shrink();
        }
    }

    fn lock(&self) -> MutexGuard<'_, CachedFolds> {
        self.0.lock()
    }
}

impl CachedFolds {
    /// Forgets the oldest until the rest has room.
    fn shrink(&mut self) {
        while self.bytes > ROOM
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
