//! Whoever guesses keys is slowed down, and seen.

use std::time::Duration;

use metrics::counter;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::domain::fault::{Code, Fault};

/// Wrong keys that are answered at once when there were none for a while.
const AT_ONCE: u32 = 50;
/// Between two answers from then on.
const PACE: Duration = Duration::from_millis(50);
/// How long an answer is put off at most; what would wait longer is refused unanswered.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two lines of the log.
const SAID: Duration = Duration::from_secs(10);

/// Wrong keys of late. A right one waits for none of them.
#[derive(Default)]
pub(super) struct Wrong(Mutex<Late>);

#[derive(Default)]
struct Late {
    /// When all that were put off are answered, if nobody comes any more.
    until: Option<Instant>,
    said: Option<Instant>,
    unsaid: u64,
}

impl Wrong {
    /// One more: returns when it may be answered with `refused`; else with the fault that says to come back later.
    pub(super) async fn one(&self, refused: Fault) -> Fault {
        let (now, turn) = self.turn();
        if turn.saturating_duration_since(now) > PATIENCE {
            counter!("pes_auth_failures_total", "reason" => "slowed").increment(1);
            let mut fault = Fault::new(Code::TooManyRequests, "Too many wrong keys were sent; try again in a while.");
            fault.retry_after_ms = i64::try_from(PATIENCE.as_millis()).ok();
            return fault;
        }
        counter!("pes_auth_failures_total", "reason" => "refused").increment(1);
        sleep_until(turn).await;
        refused
    }

    /// Now, and when its turn is.
    fn turn(&self) -> (Instant, Instant) {
        let now = Instant::now();
        let mut late = self.0.lock();
        late.unsaid += 1;
        if late.said.is_none_or(|said| now.duration_since(said) >= SAID) {
            tracing::warn!(count = late.unsaid, "wrong keys were sent");
            (late.said, late.unsaid) = (Some(now), 0);
        }
        let until = late.until.unwrap_or(now).max(now);
        // As if the ones that are answered at once had been waiting already.
        let turn = until.checked_sub(PACE * AT_ONCE).map_or(now, |turn| turn.max(now));
        if turn.duration_since(now) <= PATIENCE {
            late.until = Some(until + PACE);
        }
        (now, turn)
    }
}
