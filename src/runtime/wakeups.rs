//! Threads that want looking after, whoever noticed it: each is told once at a time. One that cannot be looked after is
//! left alone, longer each time, and stands in no other's way meanwhile.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
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

/// The threads that are due and are not to be told: it is under way, or has failed lately.
#[derive(Default)]
pub(super) struct WakeBackoff(Mutex<HashMap<ThreadPk, Place>>);

#[derive(Clone, Copy)]
struct Place {
    /// `None`: its task was told and has not done it yet.
    rests_until: Option<Instant>,
    /// How long it rested before; zero: it has not failed.
    rest: Duration,
}

impl WakeBackoff {
    /// How many threads to ask the store for: those that are not to be told stand first again.
    pub(super) fn limit(&self) -> u32 {
        let (mut all, now) = (self.lock(), Instant::now());
        // Nobody asked for it again: another takes care of it, or it is gone.
        all.retain(|_, place| place.rests_until.is_none_or(|until| until + LONGEST_REST > now));
        u32::try_from(BATCH + all.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn is_free(&self, pk: ThreadPk) -> bool {
        self.lock().get(&pk).is_none_or(|place| place.rests_until.is_some_and(|until| until <= Instant::now()))
    }

    /// `false`: it is not to be told now.
    fn begin(&self, pk: ThreadPk) -> bool {
        let mut all = self.lock();
        let rest = match all.get(&pk) {
            None => Duration::ZERO,
            Some(Place { rests_until: Some(until), rest }) if *until <= Instant::now() => *rest,
            Some(_) => return false,
        };
        all.insert(pk, Place { rests_until: None, rest });
        true
    }

    fn end(&self, pk: ThreadPk, looked: &Result<(), Refusal>) {
        let mut all = self.lock();
        let known = all.remove(&pk).map_or(Duration::ZERO, |place| place.rest);
        let Err(refusal) = looked else { return };
        if known.is_zero() {
            tracing::warn!(
                thread = pk.0,
                ?refusal,
                "a thread cannot be looked after; it is tried again, less and less often"
            );
        }
        let rest = (known * 2).clamp(FIRST_REST, LONGEST_REST);
        all.insert(pk, Place { rests_until: Some(Instant::now() + rest), rest });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ThreadPk, Place>> {
        self.0.lock()
    }
}

impl Shared {
    /// Has the thread looked after, unless that is under way or failed a moment ago. Its end tells whether it could be done.
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
