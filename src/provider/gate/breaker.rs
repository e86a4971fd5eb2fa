//! The circuit breaker: after so many failures in a row no call is sent, until a trial call succeeds. Pure.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::domain::model::{FailureKind, ModelFailure};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    Closed,
    /// Nothing is sent.
    Open,
    /// One call may try, or tries.
    HalfOpen,
}

#[derive(Debug)]
pub(super) struct Breaker {
    most: u32,
    rest: Duration,
    /// In a row.
    failures: u32,
    open_until: Option<Instant>,
    is_probing: bool,
}

/// What a call through the breaker is to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Usual,
    /// It decides whether the breaker closes.
    Probe,
}

/// How a call ended, as far as the provider's health goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Well,
    Ill,
    /// It says nothing: given up here, or put off by a rate limit.
    Unknown,
}

impl Outcome {
    pub(super) fn of(failure: &ModelFailure) -> Self {
        match failure.kind {
            FailureKind::Retry if failure.http_status == Some(429) => Outcome::Unknown,
            FailureKind::Retry | FailureKind::Unreachable | FailureKind::Broken | FailureKind::Incomplete => {
                Outcome::Ill
            }
            FailureKind::Refused | FailureKind::TooLarge | FailureKind::TooLong => Outcome::Well,
            FailureKind::Interrupted | FailureKind::Overflow | FailureKind::Saturated | FailureKind::BreakerOpen => {
                Outcome::Unknown
            }
        }
    }
}

impl Breaker {
    pub(super) fn new(most: u32, rest: Duration) -> Self {
        Self { most, rest, failures: 0, open_until: None, is_probing: false }
    }

    /// `Err`: for how long it stays open at least.
    pub(super) fn enter(&mut self, now: Instant) -> Result<Entry, Duration> {
        match self.state(now) {
            BreakerState::Closed => Ok(Entry::Usual),
            BreakerState::HalfOpen if !self.is_probing => {
                self.is_probing = true;
                Ok(Entry::Probe)
            }
            // Whoever tries needs a moment.
            BreakerState::HalfOpen => Err(Duration::from_secs(1).min(self.rest)),
            BreakerState::Open => Err(self.rest(now).err().unwrap_or(self.rest)),
        }
    }

    /// `Err`: for how long nothing is sent yet.
    pub(super) fn rest(&self, now: Instant) -> Result<(), Duration> {
        match self.open_until {
            Some(until) if now < until => Err(until - now),
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn left(&mut self, entry: Entry, outcome: Outcome, now: Instant) {
        self.is_probing &= entry == Entry::Usual;
        match (outcome, entry) {
            (Outcome::Well, Entry::Probe) => {
                self.open_until = None;
                self.failures = 0;
            }
            (Outcome::Well, Entry::Usual) => self.failures = 0,
            (Outcome::Ill, Entry::Probe) => self.open_until = Some(now + self.rest),
            (Outcome::Ill, Entry::Usual) => {
                self.failures += 1;
                if self.failures >= self.most && self.open_until.is_none() {
                    self.open_until = Some(now + self.rest);
                }
            }
            (Outcome::Unknown, _) => {}
        }
    }

    pub(super) fn state(&self, now: Instant) -> BreakerState {
        match self.open_until {
            None => BreakerState::Closed,
            Some(until) if now < until => BreakerState::Open,
            Some(_) => BreakerState::HalfOpen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: Duration = Duration::from_secs(10);

    fn opened(now: Instant) -> Breaker {
        let mut breaker = Breaker::new(3, REST);
        for _ in 0..3 {
            let entry = breaker.enter(now).unwrap();
            breaker.left(entry, Outcome::Ill, now);
        }
        breaker
    }

    #[tokio::test]
    async fn it_opens_after_failures_in_a_row_only() {
        let now = Instant::now();
        let mut breaker = Breaker::new(3, REST);
        for outcome in [Outcome::Ill, Outcome::Ill, Outcome::Well, Outcome::Ill, Outcome::Ill, Outcome::Unknown] {
            breaker.left(Entry::Usual, outcome, now);
        }
        assert_eq!(breaker.state(now), BreakerState::Closed);
        assert_eq!(opened(now).enter(now), Err(REST));
    }

    #[tokio::test]
    async fn one_call_at_a_time_tries_whether_the_provider_is_back() {
        let now = Instant::now();
        let later = now + REST;
        let mut breaker = opened(now);
        assert_eq!((breaker.state(later), breaker.enter(later)), (BreakerState::HalfOpen, Ok(Entry::Probe)));
        assert!(breaker.enter(later).is_err(), "another one tries already");
        breaker.left(Entry::Probe, Outcome::Unknown, later);
        assert_eq!(breaker.enter(later), Ok(Entry::Probe), "a try that was given up blocks nobody");
        breaker.left(Entry::Probe, Outcome::Ill, later);
        assert_eq!(breaker.enter(later), Err(REST));
        assert_eq!(breaker.enter(later + REST), Ok(Entry::Probe));
        breaker.left(Entry::Probe, Outcome::Well, later + REST);
        assert_eq!(breaker.enter(later + REST), Ok(Entry::Usual));
    }
}
