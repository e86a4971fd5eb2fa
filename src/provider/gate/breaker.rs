//! The circuit breaker: after a number of consecutive failures no calls are sent until a probe call is answered. Pure.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::domain::model::{FailureKind, ModelFailure};

/// A provider that gets no calls counts as failing until so many times `open_for` after its last failure.
const FAILING_FOR: u32 = 8;
/// How long a probe without an outcome keeps others from being sent, at least.
const MIN_PROBE_TIME: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    Closed,
    /// Nothing is sent.
    Open,
    /// One call may try, or tries. If it has no outcome for as long as the breaker was open, another may try, too.
    HalfOpen,
}

#[derive(Debug)]
pub(super) struct Breaker {
    max_failures: u32,
    open_for: Duration,
    /// Consecutive failures.
    failures: u32,
    open_until: Option<Instant>,
    /// When the last probe was sent, until it ends or the breaker closes.
    probing_since: Option<Instant>,
    last_failure: Option<Instant>,
}

/// The role of a call for the breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallRole {
    Regular,
    /// Tries whether the provider works again, and was sent then. Its success closes the breaker. Its failure counts only if
    /// the breaker was not closed since then, and no later probe was sent: both tell more about the provider as it is now.
    Probe(Instant),
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
        Self { max_failures, open_for, failures: 0, open_until: None, probing_since: None, last_failure: None }
    }

    /// `Err`: the minimum time for which no call is sent.
    pub(super) fn start_call(&mut self, now: Instant) -> Result<CallRole, Duration> {
        match self.state(now) {
            BreakerState::Closed => Ok(CallRole::Regular),
            // A probe may wait for minutes: for a connection that hangs, or for a model that thinks.
            BreakerState::HalfOpen if self.probing_since.is_none_or(|since| now >= since + self.probe_time()) => {
                self.probing_since = Some(now);
                Ok(CallRole::Probe(now))
            }
            // The probe of another call needs time.
            BreakerState::HalfOpen => Err(Duration::from_secs(1).min(self.open_for)),
            BreakerState::Open => Err(self.check_open(now).err().unwrap_or(self.open_for)),
        }
    }

    /// The reply to a probe has begun. It may take minutes, so other calls are sent from now on; the next failure in a row
    /// opens the breaker again. The probe is a regular call now.
    pub(super) fn on_probe_answered(&mut self) {
        if self.open_until.is_some() {
            self.close(self.max_failures.saturating_sub(1));
        }
    }

    fn close(&mut self, failures: u32) {
        (self.open_until, self.probing_since, self.failures) = (None, None, failures);
    }

    /// How long a probe keeps others from being sent.
    fn probe_time(&self) -> Duration {
        self.open_for.max(MIN_PROBE_TIME)
    }

    /// `Err`: the time until a call may be sent.
    pub(super) fn check_open(&self, now: Instant) -> Result<(), Duration> {
        match self.open_until {
            Some(until) if now < until => Err(until - now),
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn end_call(&mut self, role: CallRole, outcome: Outcome, now: Instant) {
        let is_last_probe = self.probing_since.is_some_and(|since| role == CallRole::Probe(since));
        if is_last_probe {
            self.probing_since = None;
        }
        if outcome == Outcome::Failure {
            self.last_failure = Some(now);
        }
        match (outcome, role) {
            (Outcome::Success, CallRole::Probe(_)) => self.close(0),
            (Outcome::Success, CallRole::Regular) => self.failures = 0,
            (Outcome::Failure, CallRole::Probe(_)) if is_last_probe => self.open_until = Some(now + self.open_for),
            (Outcome::Failure, CallRole::Probe(_)) | (Outcome::Unknown, _) => {}
            (Outcome::Failure, CallRole::Regular) => {
                self.failures += 1;
                if self.failures >= self.max_failures && self.open_until.is_none() {
                    self.open_until = Some(now + self.open_for);
                }
            }
        }
    }

    /// Whether the breaker is not closed and the last failure is recent. Without calls nothing closes the breaker, and nothing
    /// is known of the provider.
    pub(super) fn is_failing(&self, now: Instant) -> bool {
        let recent = self.open_for.saturating_mul(FAILING_FOR);
        let is_recent = |failure: Instant| failure.checked_add(recent).is_none_or(|end| now < end);
        self.open_until.is_some() && self.last_failure.is_some_and(is_recent)
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
mod tests;
