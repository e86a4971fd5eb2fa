//! Threads that were loaded when a process crashed, twice or more, without progress in between. They are reloaded in halves
//! to find the one that causes the crash.
//!
//! Half of the threads that were loaded together are reloaded first. Twice as many follow only when these have made
//! progress, come to rest, or run for [`WATCH_DURATION`]. So a crash by one of them does not count against the others, and
//! in the end the process crashes with that thread alone loaded, which is then quarantined. A thread that could not be reloaded
//! has shown nothing: it is tried again.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::domain::ids::ThreadPk;
use crate::store::Claimable;

/// From this number of crashes on, a thread is suspected of causing them.
pub(in crate::runtime) const CRASHES_OF_SUSPECT: i64 = 2;
/// A suspect that has not crashed the process within this time is cleared.
const WATCH_DURATION: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(super) struct Probation(Mutex<ProbationState>);

#[derive(Default)]
struct ProbationState {
    /// Suspects that are being reloaded, or were.
    watched: HashMap<ThreadPk, Watch>,
    /// How many suspects may be watched at once; zero: not determined yet.
    max_watched: usize,
    waiting: usize,
}

struct Watch {
    until: Instant,
    /// It was reloaded: once it is not in memory any more, it has come to rest.
    is_reloaded: bool,
}

impl Watch {
    fn begin(is_reloaded: bool) -> Self {
        Self { until: Instant::now() + WATCH_DURATION, is_reloaded }
    }
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

    /// An admitted thread was reloaded: its watch begins. Threads that are no suspects are ignored.
    pub(super) fn reloaded(&self, pk: ThreadPk) {
        let mut state = self.0.lock();
        if let Some(watch) = state.watched.get_mut(&pk).filter(|watch| !watch.is_reloaded) {
            *watch = Watch::begin(true);
        }
    }

    /// An admitted thread could not be reloaded. It has shown nothing, so it is admitted once more.
    pub(super) fn not_reloaded(&self, pk: ThreadPk) {
        let mut state = self.0.lock();
        if state.watched.get(&pk).is_some_and(|watch| !watch.is_reloaded) {
            state.watched.remove(&pk);
        }
    }

    /// Selects from the claimable threads: all that are not suspected, and as many suspects as may be watched. Call
    /// [`reloaded`](Self::reloaded) or [`not_reloaded`](Self::not_reloaded) for each of them.
    pub(super) fn admit(&self, found: Vec<Claimable>, is_loaded: impl Fn(ThreadPk) -> bool) -> AdmittedThreads {
        let mut state = self.0.lock();
        let cleared = state.end_watches(&is_loaded);
        let (mut suspects, sound): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|thread| thread.crashes.times >= CRASHES_OF_SUSPECT);
        let mut pks: Vec<ThreadPk> = sound.into_iter().map(|thread| thread.pk).collect();
        suspects.retain(|thread| !state.watched.contains_key(&thread.pk));
        // The least suspected come first: they finish before the next crash.
        suspects.sort_by_key(|thread| (thread.crashes.attributed, thread.crashes.among, thread.pk));
        if state.watched.is_empty() && state.max_watched == 0 {
            let fewest = suspects.iter().map(|thread| thread.crashes.among).min().unwrap_or(0);
            state.max_watched = usize::try_from(fewest / 2).unwrap_or(0).max(1);
        }
        let free = state.max_watched.saturating_sub(state.watched.len());
        state.waiting = suspects.len().saturating_sub(free);
        for suspect in suspects.into_iter().take(free) {
            state.watched.insert(suspect.pk, Watch::begin(false));
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
        let mut cleared = Vec::new();
        self.watched.retain(|pk, watch| {
            let is_over = watch.until <= now;
            // What takes that long to reload does not crash the process either.
            let is_cleared = if is_loaded(*pk) { is_over } else { watch.is_reloaded };
            cleared.extend(is_cleared.then_some(*pk));
            !is_cleared && !is_over
        });
        if self.watched.is_empty() && !cleared.is_empty() {
            self.max_watched *= 2;
        }
        cleared
    }
}

#[cfg(test)]
mod tests;
