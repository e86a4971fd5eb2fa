//! Waking the actors of threads that are due. Each thread is woken once at a time; one whose wake-up fails is left alone,
//! longer each time, and does not hold up the others meanwhile.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::command::Refusal;
use super::shared::Shared;
use crate::domain::ids::ThreadPk;

/// How many threads are looked after at once.
const BATCH: usize = 256;
/// How long a thread is left alone after the first failure, and at most.
const FIRST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(32);

/// The threads that are due and are not to be woken: a wake-up is under way, or has failed lately.
#[derive(Default)]
pub(super) struct WakeBackoff(Mutex<HashMap<ThreadPk, WakeState>>);

#[derive(Clone, Copy)]
struct WakeState {
    /// `None`: a wake-up is under way.
    rests_until: Option<Instant>,
    /// How long it rested before; zero: it has not failed.
    rest: Duration,
}

impl WakeBackoff {
    /// How many threads to ask the store for: those that are not to be woken come first in its answer, and are skipped.
    pub(super) fn limit(&self) -> u32 {
        let (mut all, now) = (self.0.lock(), Instant::now());
        // It was not due again: another process woke it, or it is gone.
        all.retain(|_, place| place.rests_until.is_none_or(|until| until + LONGEST_REST > now));
        u32::try_from(BATCH + all.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn is_free(&self, pk: ThreadPk) -> bool {
        self.0.lock().get(&pk).is_none_or(|place| place.rests_until.is_some_and(|until| until <= Instant::now()))
    }

    /// `false`: it is not to be woken now.
    fn begin(&self, pk: ThreadPk) -> bool {
        let mut all = self.0.lock();
        let rest = match all.get(&pk) {
            None => Duration::ZERO,
            Some(WakeState { rests_until: Some(until), rest }) if *until <= Instant::now() => *rest,
            Some(_) => return false,
        };
        all.insert(pk, WakeState { rests_until: None, rest });
        true
    }

    fn end(&self, pk: ThreadPk, looked: &Result<(), Refusal>) {
        let mut all = self.0.lock();
        let known = all.remove(&pk).map_or(Duration::ZERO, |place| place.rest);
        let Err(refusal) = looked else { return };
        if known.is_zero() {
            tracing::warn!(threadPk = pk.0, ?refusal, "waking a thread failed; it is tried again, less and less often");
        }
        let rest = (known * 2).clamp(FIRST_REST, LONGEST_REST);
        all.insert(pk, WakeState { rests_until: Some(Instant::now() + rest), rest });
    }
}

impl Shared {
    /// Wakes the thread's actor, unless that is under way or failed a moment ago. The task returns whether it succeeded.
    pub(super) fn wake_with_backoff(self: &Arc<Self>, pk: ThreadPk) -> Option<JoinHandle<bool>> {
        if !self.wake_backoff.begin(pk) {
            return None;
        }
        let shared = self.clone();
        Some(tokio::spawn(async move {
            let looked = shared.wake(pk).await;
            shared.wake_backoff.end(pk, &looked);
            looked.is_ok()
        }))
    }
}
