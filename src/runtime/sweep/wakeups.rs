//! Waking the actors of due threads. A thread has one wake-up at a time. After a failed wake-up it is left alone, longer each
//! time, and does not delay the others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::domain::ids::ThreadPk;
use crate::runtime::actor::CommandError;
use crate::runtime::shared::Shared;

/// Bounds the threads that are woken together.
const MAX_WAKES: usize = 256;
/// The pause after a failed wake-up. It doubles with each failure.
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(32);

/// Due threads that must not be woken: a wake-up is under way, or has failed lately.
#[derive(Default)]
pub(in crate::runtime) struct WakeBackoff(Mutex<HashMap<ThreadPk, WakeState>>);

#[derive(Clone, Copy)]
struct WakeState {
    /// `None`: a wake-up is under way.
    paused_until: Option<Instant>,
    /// The last pause; zero: it has not failed.
    pause: Duration,
}

impl WakeBackoff {
    /// How many threads to ask the store for: its answer may begin with threads that must not be woken, which are skipped.
    pub(in crate::runtime) fn limit(&self) -> u32 {
        let (mut all, now) = (self.0.lock(), Instant::now());
        // Forgets threads that did not become due again: another process woke them, or they are gone.
        all.retain(|_, state| state.paused_until.is_none_or(|until| until + MAX_PAUSE > now));
        u32::try_from(MAX_WAKES + all.len()).unwrap_or(u32::MAX)
    }

    pub(in crate::runtime) fn may_wake(&self, pk: ThreadPk) -> bool {
        self.0.lock().get(&pk).is_none_or(|state| state.paused_until.is_some_and(|until| until <= Instant::now()))
    }

    /// Begins a wake-up; `false`: the thread must not be woken now.
    fn begin(&self, pk: ThreadPk) -> bool {
        let mut all = self.0.lock();
        let pause = match all.get(&pk) {
            None => Duration::ZERO,
            Some(WakeState { paused_until: Some(until), pause }) if *until <= Instant::now() => *pause,
            Some(_) => return false,
        };
        all.insert(pk, WakeState { paused_until: None, pause });
        true
    }

    fn end(&self, pk: ThreadPk, result: &Result<(), CommandError>) {
        let mut all = self.0.lock();
        let last = all.remove(&pk).map_or(Duration::ZERO, |state| state.pause);
        let Err(refusal) = result else { return };
        if last.is_zero() {
            tracing::warn!(threadPk = pk.0, ?refusal, "waking a thread failed; it is tried again, less and less often");
        }
        let pause = (last * 2).clamp(MIN_PAUSE, MAX_PAUSE);
        all.insert(pk, WakeState { paused_until: Some(Instant::now() + pause), pause });
    }
}

impl Shared {
    /// Wakes the thread's actor, unless that is under way or failed a moment ago. The task returns whether it succeeded.
    pub(in crate::runtime) fn wake_with_backoff(self: &Arc<Self>, pk: ThreadPk) -> Option<JoinHandle<bool>> {
        if !self.sweeper.backoff.begin(pk) {
            return None;
        }
        let shared = self.clone();
        Some(tokio::spawn(async move {
            let result = shared.wake(pk).await;
            shared.sweeper.backoff.end(pk, &result);
            let probation = &shared.sweeper.probation;
            if result.is_ok() {
                probation.reloaded(pk)
            } else {
                probation.not_reloaded(pk)
            }
            result.is_ok()
        }))
    }
}
