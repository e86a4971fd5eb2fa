//! The circuit breaker: after a number of consecutive failures no calls are sent until a probe call is answered. Pure.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::domain::model::{FailureKind, ModelFailure};

/// A provider that gets no calls counts as failing until so many times `open_for` after its last failure.
const FAILING_FOR: u32 = 8;

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
    max_failures: u32,
    open_for: Duration,
    /// Consecutive failures.
    failures: u32,
    open_until: Option<Instant>,
    /// When the last probe call was sent, until it ends.
    probing_since: Option<Instant>,
}

/// The role of a call for the breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallRole {
    Regular,
    /// Its outcome decides whether the breaker closes.
    Probe,
}

/// The outcome of a call as a measure of the provider's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Success,
    Failure,
    /// Says nothing about the provider: the call was abandoned here, or delayed by a rate limit.
    Unknown,
}

impl Outcome {
    pub(super) fn of(failure: &ModelFailure) -> Self {
        match failure.kind {
            FailureKind::Retry if failure.http_status == Some(429) => Outcome::Unknown,
            FailureKind::Broken if failure.is_models_fault => Outcome::Success,
            FailureKind::Retry | FailureKind::Unreachable | FailureKind::Broken | FailureKind::Incomplete => {
                Outcome::Failure
            }
            FailureKind::Refused | FailureKind::TooLarge | FailureKind::TooLong => Outcome::Success,
            FailureKind::Interrupted | FailureKind::Overflow | FailureKind::Saturated | FailureKind::BreakerOpen => {
                Outcome::Unknown
            }
        }
    }
}

impl Breaker {
    pub(super) fn new(max_failures: u32, open_for: Duration) -> Self {
        Self { max_failures, open_for, failures: 0, open_until: None, probing_since: None }
    }

    /// `Err`: the minimum time for which no call is sent.
    pub(super) fn start_call(&mut self, now: Instant) -> Result<CallRole, Duration> {
        match self.state(now) {
            BreakerState::Closed => Ok(CallRole::Regular),
            // A probe may wait for minutes: for a connection that hangs, or for a model that thinks.
            BreakerState::HalfOpen if self.probing_since.is_none_or(|since| now >= since + self.open_for) => {
                self.probing_since = Some(now);
                Ok(CallRole::Probe)
            }
            // The probe of another call needs time.
            BreakerState::HalfOpen => Err(Duration::from_secs(1).min(self.open_for)),
            BreakerState::Open => Err(self.check_open(now).err().unwrap_or(self.open_for)),
        }
    }

    /// The reply to a probe has begun. It may take minutes, so other calls are sent from now on; the next failure in a row
    /// opens the breaker again. The probe is a regular call now.
    pub(super) fn on_probe_answered(&mut self) {
        (self.open_until, self.probing_since) = (None, None);
        self.failures = self.max_failures.saturating_sub(1);
    }

    /// `Err`: the time until a call may be sent.
    pub(super) fn check_open(&self, now: Instant) -> Result<(), Duration> {
        match self.open_until {
            Some(until) if now < until => Err(until - now),
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn end_call(&mut self, role: CallRole, outcome: Outcome, now: Instant) {
        if role == CallRole::Probe {
            self.probing_since = None;
        }
        match (outcome, role) {
            (Outcome::Success, CallRole::Probe) => {
                self.open_until = None;
                self.failures = 0;
            }
            (Outcome::Success, CallRole::Regular) => self.failures = 0,
            (Outcome::Failure, CallRole::Probe) => self.open_until = Some(now + self.open_for),
            (Outcome::Failure, CallRole::Regular) => {
                self.failures += 1;
                if self.failures >= self.max_failures && self.open_until.is_none() {
                    self.open_until = Some(now + self.open_for);
                }
            }
            (Outcome::Unknown, _) => {}
        }
    }

    /// Whether the breaker is not closed and the last failure is recent. Without calls nothing closes the breaker, and nothing
    /// is known of the provider.
    pub(super) fn is_failing(&self, now: Instant) -> bool {
        let idle = self.open_for.saturating_mul(FAILING_FOR - 1);
        self.open_until.is_some_and(|until| until.checked_add(idle).is_none_or(|end| now < end))
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

    const OPEN_FOR: Duration = Duration::from_secs(10);

    fn opened(now: Instant) -> Breaker {
        let mut breaker = Breaker::new(3, OPEN_FOR);
        for _ in 0..3 {
            let role = breaker.start_call(now).unwrap();
            breaker.end_call(role, Outcome::Failure, now);
        }
        breaker
    }

    #[test]
    fn a_call_that_the_model_wrote_wrongly_says_that_the_provider_works() {
        let broken = ModelFailure::new(FailureKind::Broken, "no call");
        assert_eq!(Outcome::of(&broken), Outcome::Failure);
        assert_eq!(Outcome::of(&ModelFailure { is_models_fault: true, ..broken }), Outcome::Success);
    }

    #[tokio::test]
    async fn it_opens_after_failures_in_a_row_only() {
        let now = Instant::now();
        let mut breaker = Breaker::new(3, OPEN_FOR);
        for outcome in
            [Outcome::Failure, Outcome::Failure, Outcome::Success, Outcome::Failure, Outcome::Failure, Outcome::Unknown]
        {
            breaker.end_call(CallRole::Regular, outcome, now);
        }
        assert_eq!(breaker.state(now), BreakerState::Closed);
        assert_eq!(opened(now).start_call(now), Err(OPEN_FOR));
    }

    #[tokio::test]
    async fn one_call_at_a_time_tries_whether_the_provider_is_back() {
        let now = Instant::now();
        let later = now + OPEN_FOR;
        let mut breaker = opened(now);
        assert_eq!((breaker.state(later), breaker.start_call(later)), (BreakerState::HalfOpen, Ok(CallRole::Probe)));
        assert!(breaker.start_call(later).is_err(), "another one tries already");
        breaker.end_call(CallRole::Probe, Outcome::Unknown, later);
        assert_eq!(breaker.start_call(later), Ok(CallRole::Probe), "a try that was given up blocks nobody");
        breaker.end_call(CallRole::Probe, Outcome::Failure, later);
        assert_eq!(breaker.start_call(later), Err(OPEN_FOR));
        assert_eq!(breaker.start_call(later + OPEN_FOR), Ok(CallRole::Probe));
        breaker.end_call(CallRole::Probe, Outcome::Success, later + OPEN_FOR);
        assert_eq!(breaker.start_call(later + OPEN_FOR), Ok(CallRole::Regular));
    }

    #[tokio::test]
    async fn a_try_that_hangs_keeps_others_from_trying_only_for_a_while() {
        let later = Instant::now() + OPEN_FOR;
        let mut breaker = opened(later - OPEN_FOR);
        assert_eq!(breaker.start_call(later), Ok(CallRole::Probe));
        assert!(breaker.start_call(later + OPEN_FOR / 2).is_err());
        assert_eq!(breaker.start_call(later + OPEN_FOR), Ok(CallRole::Probe));
        assert!(breaker.start_call(later + OPEN_FOR).is_err());
    }
}
