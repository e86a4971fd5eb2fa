//! Slows down answers to requests with wrong keys, and reports them in the log, so that guessing keys is slow and seen.

use std::time::Duration;

use metrics::counter;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::domain::fault::{Code, Fault};

/// Wrong keys that are answered without delay when there were none for a while.
const BURST: u32 = 50;
/// Between two answers after the burst.
const INTERVAL: Duration = Duration::from_millis(50);
/// The longest delay of an answer; a request that would wait longer is refused with 429.
const LONGEST_DELAY: Duration = Duration::from_secs(5);
/// Between two lines of the log.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The recent wrong keys of all callers. Requests with a right key are not delayed.
#[derive(Default)]
pub(super) struct WrongKeyThrottle(Mutex<RecentWrongKeys>);

#[derive(Default)]
struct RecentWrongKeys {
    /// When the last of the delayed answers is due.
    until: Option<Instant>,
    logged_at: Option<Instant>,
    /// Wrong keys since then.
    not_logged: u64,
}

impl WrongKeyThrottle {
    /// Counts a wrong key. Returns `refused` when its answer is due, or at once a fault that says when to try again.
    pub(super) async fn throttled(&self, refused: Fault) -> Fault {
        let (now, due) = self.count_and_schedule();
        if due.saturating_duration_since(now) > LONGEST_DELAY {
            counter!("pes_auth_failures_total", "reason" => "slowed").increment(1);
            let mut fault = Fault::new(Code::TooManyRequests, "Too many wrong keys were sent; try again in a while.");
            fault.retry_after_ms = i64::try_from(LONGEST_DELAY.as_millis()).ok();
            return fault;
        }
        counter!("pes_auth_failures_total", "reason" => "refused").increment(1);
        sleep_until(due).await;
        refused
    }

    /// The time now, and the time at which the answer is due.
    fn count_and_schedule(&self) -> (Instant, Instant) {
        let now = Instant::now();
        let mut recent = self.0.lock();
        recent.not_logged += 1;
        if recent.logged_at.is_none_or(|at| now.duration_since(at) >= LOG_INTERVAL) {
            tracing::warn!(count = recent.not_logged, "wrong keys were sent");
            (recent.logged_at, recent.not_logged) = (Some(now), 0);
        }
        let until = recent.until.unwrap_or(now).max(now);
        // The burst is answered as if its delay had passed already.
        let due = until.checked_sub(INTERVAL * BURST).map_or(now, |due| due.max(now));
        if due.duration_since(now) <= LONGEST_DELAY {
            recent.until = Some(until + INTERVAL);
        }
        (now, due)
    }
}
