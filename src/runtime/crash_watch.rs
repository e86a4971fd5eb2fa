//! Whether any process crashed within the last hour. While one did, threads at rest are reserved before they are read for a
//! request (`actor/reservation.rs`).

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::shared::Shared;
use crate::store::{PROCESS_CRASHES, Result};

/// How long the watch lasts after a crash.
const WATCH_DURATION: Duration = Duration::from_secs(3_600);
/// How often the store is asked for crashes.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct CrashWatch(Mutex<Option<CrashState>>);

#[derive(Clone, Copy)]
struct CrashState {
    crashes: i64,
    /// When the last of them was noticed.
    since: Instant,
    polled_at: Instant,
}

impl CrashWatch {
    /// Whether a process crashed within the last hour.
    pub(super) fn is_on(&self) -> bool {
        self.0.lock().is_some_and(|state| state.crashes > 0)
    }

    /// Whether it is time to ask the store for crashes again.
    fn should_poll(&self, others_may_crash: bool) -> bool {
        self.0
            .lock()
            .is_none_or(|state| (others_may_crash || state.crashes > 0) && state.polled_at.elapsed() >= POLL_INTERVAL)
    }

    /// Takes in the number of crashes in the store. `true`: the watch ends, because the last one is an hour ago.
    fn update(&self, crashes: i64) -> bool {
        let mut state = self.0.lock();
        let now = Instant::now();
        let since = state.filter(|state| state.crashes == crashes).map_or(now, |state| state.since);
        let is_over = crashes > 0 && since.elapsed() >= WATCH_DURATION;
        *state = Some(CrashState { crashes: if is_over { 0 } else { crashes }, since, polled_at: now });
        is_over
    }
}

impl Shared {
    /// Asks the store whether a process crashed, if it is time to.
    pub(super) async fn look_for_crashes(&self) -> Result<()> {
        if self.crash_watch.should_poll(self.store.is_shared())
            && self.crash_watch.update(self.store.process_crashes().await?)
        {
            self.store.forget_crashes(&[PROCESS_CRASHES]).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_watch_begins_with_a_crash_and_ends_an_hour_after_the_last() {
        let watch = CrashWatch::default();
        assert!(watch.should_poll(false) && !watch.update(0) && !watch.is_on());
        assert!(!watch.should_poll(false), "nobody else can crash");
        tokio::time::advance(POLL_INTERVAL).await;
        assert!(watch.should_poll(true) && !watch.update(1) && watch.is_on());
        tokio::time::advance(WATCH_DURATION - POLL_INTERVAL).await;
        assert!(!watch.update(2) && watch.is_on(), "another");
        tokio::time::advance(WATCH_DURATION - POLL_INTERVAL).await;
        assert!(!watch.update(2) && watch.is_on());
        tokio::time::advance(POLL_INTERVAL).await;
        assert!(watch.should_poll(false) && watch.update(2) && !watch.is_on());
    }
}
