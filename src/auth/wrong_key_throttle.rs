//! Delays answers to requests with wrong keys, and logs them, so that guessing keys is slow and visible.

use std::net::IpAddr;
use std::time::Duration;

use metrics::counter;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::domain::fault::{Code, Fault};

/// How many wrong keys are answered without delay after a quiet period.
const BURST: u32 = 50;
/// The time between two answers after the burst.
const INTERVAL: Duration = Duration::from_millis(50);
/// The longest delay of an answer; a request that would wait longer is refused with 429.
const MAX_DELAY: Duration = Duration::from_secs(5);
/// The minimum time between two log lines.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The recent wrong keys of all callers. Requests with a right key are not delayed.
#[derive(Default)]
pub(super) struct WrongKeyThrottle(Mutex<RecentWrongKeys>);

#[derive(Default)]
struct RecentWrongKeys {
    /// When the last delayed answer is due.
    until: Option<Instant>,
    logged_at: Option<Instant>,
    /// Wrong keys since the last log line.
    not_logged: u64,
}

impl WrongKeyThrottle {
    /// Counts a wrong key from this address, if it is known. Waits until its answer is due and returns `refused`; if that
    /// would take too long, returns a fault with a retry delay at once.
    pub(super) async fn throttled(&self, refused: Fault, from: Option<IpAddr>) -> Fault {
        let (now, due) = self.count_and_schedule(from);
        if due.saturating_duration_since(now) > MAX_DELAY {
            counter!("pes_auth_failures_total", "reason" => "slowed").increment(1);
            let mut fault = Fault::new(Code::TooManyRequests, "Too many wrong keys were sent; try again in a while.");
            fault.retry_after_ms = i64::try_from(MAX_DELAY.as_millis()).ok();
            return fault;
        }
        counter!("pes_auth_failures_total", "reason" => "refused").increment(1);
        sleep_until(due).await;
        refused
    }

    /// The current time, and the time when the answer is due.
    fn count_and_schedule(&self, from: Option<IpAddr>) -> (Instant, Instant) {
        let now = Instant::now();
        let mut recent = self.0.lock();
        recent.not_logged += 1;
        if recent.logged_at.is_none_or(|at| now.duration_since(at) >= LOG_INTERVAL) {
            let last_from = from.map(tracing::field::display);
            tracing::warn!(count = recent.not_logged, last_from, "wrong keys were sent");
            (recent.logged_at, recent.not_logged) = (Some(now), 0);
        }
        let until = recent.until.unwrap_or(now).max(now);
        // The burst gets a credit of its own delay.
        let due = until.checked_sub(INTERVAL * BURST).map_or(now, |due| due.max(now));
        if due.duration_since(now) <= MAX_DELAY {
            recent.until = Some(until + INTERVAL);
        }
        (now, due)
    }
}
