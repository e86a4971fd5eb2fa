//! Folds of logs that were read not long ago, at fixed distances: whoever reads a page begins at the nearest one instead
//! of the beginning. A log only grows, so what was folded once stays true. Shared by all readers, and bounded.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::ids::ThreadPk;
use crate::engine::fold::Fold;

/// Observations between two folds of a log.
const DISTANCE: i64 = 400;
/// Bytes of all folds together, roughly.
const ROOM: usize = 32 << 20;

#[derive(Default)]
pub(super) struct Folds(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    folds: HashMap<ThreadPk, BTreeMap<i64, Arc<Fold>>>,
    /// In the order in which they were made, with what each takes.
    order: VecDeque<(ThreadPk, i64, usize)>,
    bytes: usize,
}

impl Folds {
    /// The last one that was told nothing after `seq`, and what it was told.
    pub(super) fn nearest(&self, pk: ThreadPk, seq: i64) -> Option<(i64, Fold)> {
        let nearest = self.lock().folds.get(&pk)?.range(..=seq).next_back().map(|(seq, fold)| (*seq, fold.clone()));
        nearest.map(|(seq, fold)| (seq, Fold::clone(&fold)))
    }

    /// Keeps this one, which was told everything up to `seq`, unless there is another at about its place.
    pub(super) fn offer(&self, pk: ThreadPk, seq: i64, fold: &Fold) {
        let is_near = |kept: &Kept| {
            let last = kept.folds.get(&pk).and_then(|of_thread| of_thread.range(..=seq).next_back());
            last.map_or(0, |(last, _)| *last) + DISTANCE > seq
        };
        if is_near(&self.lock()) {
            return;
        }
        let bytes = fold.bytes();
        let fold = Arc::new(fold.clone());
        let mut kept = self.lock();
        if !is_near(&kept) && bytes <= ROOM {
            kept.folds.entry(pk).or_default().insert(seq, fold);
            kept.order.push_back((pk, seq, bytes));
            kept.bytes += bytes;
            kept.shrink();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PK: ThreadPk = ThreadPk(1);

    fn fold(title: &str) -> Fold {
        Fold::of_view(&json!({ "title": title }))
    }

    #[test]
    fn folds_stand_at_distances_and_the_nearest_before_is_given() {
        let folds = Folds::default();
        assert_eq!(folds.nearest(PK, 10_000), None);
        for seq in [100, 400, 500, 900, 1_299] {
            folds.offer(PK, seq, &fold(&seq.to_string()));
        }
        assert_eq!(folds.nearest(PK, 399), None);
        assert_eq!(folds.nearest(PK, 899), Some((400, fold("400"))));
        assert_eq!(folds.nearest(PK, 10_000), Some((900, fold("900"))));
        assert_eq!(folds.nearest(ThreadPk(2), 10_000), None);
    }

    #[test]
    fn the_oldest_make_room() {
        let folds = Folds::default();
        let large = fold(&"x".repeat(ROOM / 2 - 2_000));
        for nth in 1..=3 {
            folds.offer(PK, nth * DISTANCE, &large);
        }
        assert_eq!(folds.nearest(PK, DISTANCE), None);
        assert_eq!(folds.nearest(PK, 2 * DISTANCE).map(|(seq, _)| seq), Some(2 * DISTANCE));
        let kept = folds.lock();
        assert!(kept.bytes <= ROOM && kept.order.len() == 2, "{}", kept.bytes);
    }
}
