//! Threads that were loaded when a process crashed, twice or more, without progress in between. They are reloaded in halves
//! to find the one that causes the crash.
//!
//! Half of the threads that were loaded together are reloaded first. Twice as many follow only when these have made
//! progress, come to rest, or run for [`WATCH_DURATION`]. So a crash by one of them does not count against the others, and
//! in the end the process crashes with that thread alone loaded, which is then quarantined.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::domain::ids::ThreadPk;
use crate::store::Claimable;

/// From this number of crashes on, a thread is suspected of causing them.
pub(super) const CRASHES_OF_SUSPECT: i64 = 2;
/// A suspect that has not crashed the process within this time is cleared.
const WATCH_DURATION: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(super) struct Probation(Mutex<ProbationState>);

#[derive(Default)]
struct ProbationState {
    /// Suspects that were reloaded, and until when they are watched.
    watched: HashMap<ThreadPk, Instant>,
    /// How many suspects may be watched at once; zero: not determined yet.
    max_watched: usize,
    waiting: usize,
}

/// The threads that may be loaded now.
pub(super) struct AdmittedThreads {
    pub(super) pks: Vec<ThreadPk>,
    /// Suspects that were watched and did not crash the process.
    pub(super) cleared: Vec<ThreadPk>,
}

impl Probation {
    /// How many suspects wait to be reloaded.
    pub(super) fn waiting(&self) -> usize {
        self.0.lock().waiting
    }

    /// Selects from the claimable threads: all that are not suspected, and as many suspects as may be watched.
    pub(super) fn admit(&self, found: Vec<Claimable>, is_loaded: impl Fn(ThreadPk) -> bool) -> AdmittedThreads {
        let mut state = self.0.lock();
        let cleared = state.end_watches(&is_loaded);
        let (mut suspects, sound): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|thread| thread.crashes.times >= CRASHES_OF_SUSPECT);
        let mut pks: Vec<ThreadPk> = sound.into_iter().map(|thread| thread.pk).collect();
        suspects.retain(|thread| !state.watched.contains_key(&thread.pk));
        // The least suspected come first: they finish before the next crash.
        suspects.sort_by_key(|thread| (thread.crashes.alone, thread.crashes.among, thread.pk));
        if state.watched.is_empty() && state.max_watched == 0 {
            let fewest = suspects.iter().map(|thread| thread.crashes.among).min().unwrap_or(0);
            state.max_watched = usize::try_from(fewest / 2).unwrap_or(0).max(1);
        }
        let free = state.max_watched.saturating_sub(state.watched.len());
        state.waiting = suspects.len().saturating_sub(free);
        let until = Instant::now() + WATCH_DURATION;
        for suspect in suspects.into_iter().take(free) {
            state.watched.insert(suspect.pk, until);
            pks.push(suspect.pk);
        }
        if state.watched.is_empty() {
            state.max_watched = 0;
        }
        AdmittedThreads { pks, cleared }
    }
}

impl ProbationState {
    fn end_watches(&mut self, is_loaded: impl Fn(ThreadPk) -> bool) -> Vec<ThreadPk> {
        let now = Instant::now();
        let is_cleared = |(pk, until): (&ThreadPk, &Instant)| (*until <= now || !is_loaded(*pk)).then_some(*pk);
        let cleared: Vec<ThreadPk> = self.watched.iter().filter_map(is_cleared).collect();
        self.watched.retain(|pk, _| !cleared.contains(pk));
        if self.watched.is_empty() && !cleared.is_empty() {
            self.max_watched *= 2;
        }
        cleared
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Crashes;

    fn found(pk: i64, times: i64, alone: i64, among: i64) -> Claimable {
        Claimable { pk: ThreadPk(pk), crashes: Crashes { times, alone, among } }
    }

    fn keys(pks: &[ThreadPk]) -> Vec<i64> {
        pks.iter().map(|pk| pk.0).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn what_died_together_twice_is_taken_up_in_halves_and_then_in_ever_more() {
        let probation = Probation::default();
        let all = || (1..=8).map(|pk| found(pk, 2, 0, 8)).chain([found(9, 1, 0, 8)]).collect::<Vec<_>>();
        let first = probation.admit(all(), |_| true);
        assert_eq!(keys(&first.pks), [9, 1, 2, 3, 4], "once is no reason to wait");
        assert_eq!((first.cleared.len(), probation.waiting()), (0, 4));
        let rest = || (5..=8).map(|pk| found(pk, 2, 0, 8)).collect::<Vec<_>>();
        assert!(probation.admit(rest(), |_| true).pks.is_empty(), "the first are still watched");
        tokio::time::advance(WATCH_DURATION).await;
        let next = probation.admit(rest(), |_| true);
        assert_eq!((keys(&next.pks), next.cleared.len()), (vec![5, 6, 7, 8], 4));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_pointed_at_comes_last_and_alone() {
        let probation = Probation::default();
        let all = || vec![found(1, 4, 1, 1), found(2, 3, 0, 2)];
        assert_eq!(keys(&probation.admit(all(), |_| true).pks), [2]);
        assert_eq!(keys(&probation.admit(vec![found(1, 4, 1, 1)], |_| false).pks), [1]);
    }
}
