//! An outage of the server while a run is followed.

use std::time::Duration;

use tokio::time::Instant;

use super::events::pause;

#[derive(Default)]
pub(super) struct Outage {
    /// When to ask the server again for the run's status, after it failed to answer.
    pub again_at: Option<Instant>,
    failures: usize,
    /// It was told, and nothing was told of its end.
    pub is_told: bool,
}

impl Outage {
    /// The time until the run's status is asked for again, and at least `wanted`, which the server asked for.
    pub fn pause(&mut self, wanted: Option<Duration>) -> Duration {
        let again_in = pause(self.failures, wanted);
        self.failures += 1;
        self.again_at = Some(Instant::now() + again_in);
        again_in
    }

    /// Ends it; returns whether it was told.
    pub fn ends(&mut self) -> bool {
        std::mem::take(self).is_told
    }
}

/// `seq`: the last observation that is shown.
pub(super) fn words(why: &str, again_in: Duration, seq: i64) -> String {
    let (seconds, why) = (again_in.as_secs(), why.trim_end_matches('.'));
    format!("The server does not answer (again in {seconds} s; what you see is as of observation {seq}): {why}.")
}
