//! The fault that a caller of the server gets for a failed store call.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::Error;
use crate::domain::fault::{Code, Fault};

/// The minimum time between two log lines about a store that fails: each request and each commit may fail by it.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

static FAILURES: Mutex<Failures> = Mutex::new(Failures { logged_at: None, not_logged: 0 });

/// The failures of this process.
struct Failures {
    logged_at: Option<Instant>,
    /// Failures since the last log line.
    not_logged: u64,
}

impl Failures {
    /// Counts a failure. If a line is due, returns how many failures it is about.
    fn count(&mut self, now: Instant) -> Option<u64> {
        self.not_logged += 1;
        if self.logged_at.is_some_and(|at| now.duration_since(at) < LOG_INTERVAL) {
            return None;
        }
        self.logged_at = Some(now);
        Some(std::mem::take(&mut self.not_logged))
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match error {
            Error::Unavailable(_) => {
                log(&error);
                let detail = "The store does not answer; try again in a moment.";
                Fault::new(Code::StoreUnavailable, detail).retry_after(1_000)
            }
            Error::Unusable(_) => {
                log(&error);
                let detail = "The database cannot be used until its operator has mended it; see the server's log.";
                Fault::new(Code::StoreUnavailable, detail)
            }
            Error::Refused(reason) => Fault::new(Code::Invalid, reason),
            Error::Damaged(_) => {
                tracing::error!(%error, "stored data cannot be read");
                Fault::new(Code::Internal, "What is stored here cannot be read; see the server's log.")
            }
        }
    }
}

fn log(error: &Error) {
    if let Some(count) = FAILURES.lock().count(Instant::now()) {
        tracing::warn!(count, %error, "the store failed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_fails_is_logged_every_ten_seconds_with_the_number_of_failures() {
        let mut failures = Failures { logged_at: None, not_logged: 0 };
        let begun = Instant::now();
        let told = [0, 1, 9, 10, 11, 30].map(|seconds| failures.count(begun + Duration::from_secs(seconds)));
        assert_eq!(told, [Some(1), None, None, Some(3), None, Some(2)]);
    }
}
