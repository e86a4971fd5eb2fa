//! Failures of one kind that may follow each other quickly, as those of a full disk, and are logged together.

use std::time::{Duration, Instant};

/// The minimum time between two log lines.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The failures since the last line of the log that names them.
pub(crate) struct RepeatedFailure {
    logged_at: Option<Instant>,
    not_logged: u64,
}

impl RepeatedFailure {
    pub(crate) const fn new() -> Self {
        Self { logged_at: None, not_logged: 0 }
    }

    /// Counts a failure. If a line is due, returns how many failures it is about.
    pub(crate) fn count(&mut self, now: Instant) -> Option<u64> {
        self.not_logged += 1;
        if self.logged_at.is_some_and(|at| now.duration_since(at) < LOG_INTERVAL) {
            return None;
        }
        self.logged_at = Some(now);
        Some(std::mem::take(&mut self.not_logged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_again_and_again_is_logged_every_ten_seconds_with_how_often() {
        let mut failure = RepeatedFailure::new();
        let begun = Instant::now();
        let told = [0, 1, 9, 10, 11, 30].map(|seconds| failure.count(begun + Duration::from_secs(seconds)));
        assert_eq!(told, [Some(1), None, None, Some(3), None, Some(2)]);
    }
}
