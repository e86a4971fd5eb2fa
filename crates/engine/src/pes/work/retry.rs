//! What follows a failed call. For a model call: another attempt, another model, a shorter prompt, or the end of the
//! step. For a tool call: another attempt, if the tool declared that this is safe, or nothing was sent.

use crate::domain::Millis;
use crate::domain::ids::{CallId, ItemId};
use crate::domain::model::{FailureKind, ModelFailure};
use crate::domain::tool::{CallCode, Retrying, ToolClass, ToolError};
use crate::pes::peers::send;
use crate::pes::people::suspend;
use crate::pes::settle::suspension;
use crate::pes::state::{ModelCall, State};
use crate::pes::tx::Tx;
use crate::prompt;

const BACKOFF_MS: Millis = 500;
const MAX_BACKOFF_MS: Millis = 30_000;
/// After this many failures a model is given up, if there is a fallback.
const MAX_FAILURES_BEFORE_FALLBACK: u32 = 2;
/// So is a model that must be waited for longer than this.
const MAX_DELAY_BEFORE_FALLBACK_MS: Millis = 5_000;
/// How often a tool call that may be repeated may fail before its error counts.
const MAX_TOOL_FAILURES: u32 = 5;

enum RetryDecision {
    /// The same model, after this delay.
    Again(Millis),
    /// The next fallback model, at once.
    Other,
    /// The same model with a shorter prompt, at once.
    Tighter,
    GiveUp,
}

/// Prepares the call for its next attempt and returns the delay; `None`: there is no next attempt. `item`: whose step it
/// is.
pub(crate) fn prepare_next(
    tx: &mut Tx<'_>,
    item: Option<&ItemId>,
    call: &mut ModelCall,
    failure: &ModelFailure,
) -> Option<Millis> {
    if failure.kind == FailureKind::Interrupted {
        restart_retry_time(tx, call);
        return Some(0);
    }
    // The queue of this server is not the model's fault: the call is not given up for it, and the time in the queue
    // does not count.
    let is_queued = failure.kind == FailureKind::Saturated;
    call.exclude_wait(failure.queued_ms);
    if !is_queued {
        if failure.is_ours {
            call.unsent += 1;
        } else {
            call.failures += 1;
        }
        call.failing_since.get_or_insert(tx.stamp.now);
    }
    match decide_retry(tx, item, call, failure) {
        RetryDecision::Again(delay) => {
            call.exclude_wait(if is_queued { delay } else { 0 });
            Some(delay)
        }
        RetryDecision::Other => {
            call.choice += 1;
            (call.failures, call.unsent) = (0, 0);
            call.must_shorten = false;
            Some(0)
        }
        RetryDecision::Tighter => {
            call.must_shorten = true;
            Some(0)
        }
        RetryDecision::GiveUp => None,
    }
}

/// The process stopped during the attempt. The length of the outage is not known: the time for which models are retried
/// starts anew.
pub(crate) fn restart_retry_time(tx: &Tx<'_>, call: &mut ModelCall) {
    call.failing_since = call.failing_since.map(|_| tx.stamp.now);
}

fn decide_retry(tx: &Tx<'_>, item: Option<&ItemId>, call: &ModelCall, failure: &ModelFailure) -> RetryDecision {
    let has_other = tx.state.run_settings().choice(call.choice + 1).is_some();
    let or_other = || if has_other { RetryDecision::Other } else { RetryDecision::GiveUp };
    let limits = tx.world.limits;
    let failures = if failure.is_ours { call.unsent } else { call.failures };
    let window = match failure.kind {
        FailureKind::Refused | FailureKind::TooLarge => return or_other(),
        FailureKind::TooLong if call.must_shorten || !prompt::can_be_shorter(tx.state, call, item) => {
            return or_other();
        }
        FailureKind::TooLong => return RetryDecision::Tighter,
        FailureKind::Saturated | FailureKind::BreakerOpen if has_other => return RetryDecision::Other,
        FailureKind::Saturated => return RetryDecision::Again(delay(tx, 1, failure.retry_after_ms)),
        FailureKind::Broken | FailureKind::Incomplete if failures >= max_attempts(tx.state) => return or_other(),
        FailureKind::Unreachable => limits.connect_retry_ms.min(limits.retry_ms),
        FailureKind::Retry
        | FailureKind::Broken
        | FailureKind::Incomplete
        | FailureKind::Interrupted
        | FailureKind::Overflow
        | FailureKind::BreakerOpen => limits.retry_ms,
    };
    let delay = delay(tx, failures, failure.retry_after_ms);
    let has_failed_enough = failures >= MAX_FAILURES_BEFORE_FALLBACK || delay > MAX_DELAY_BEFORE_FALLBACK_MS;
    if has_other && has_failed_enough && !failure.is_ours {
        return RetryDecision::Other;
    }
    let until = call.failing_since.unwrap_or(tx.stamp.now).saturating_add(window);
    if tx.stamp.now.saturating_add(delay) <= until { RetryDecision::Again(delay) } else { or_other() }
}

/// `true`: the tool call is made again, under the same idempotency key, after a delay that grows with its failures. It
/// keeps its turn in its batch. One that was lost and only reads may be repeated, as after a crash.
pub(crate) fn retry_tool_call(tx: &mut Tx<'_>, id: &CallId, error: &ToolError) -> bool {
    let (now, limits) = (tx.stamp.now, tx.world.limits);
    let Some(record) = tx.state.calls.get(id).map(|call| &call.record) else { return false };
    let is_lost_read = record.class == Some(ToolClass::Read) && error.is_lost();
    let is_safe = record.idempotent || is_lost_read || error.has(CallCode::Unavailable);
    let Some(after) = error.retry_after_ms.filter(|_| is_safe) else { return false };
    let (failures, since) = record.retrying.as_ref().map_or((1, now), |last| (last.failures + 1, last.since));
    let not_before = now.saturating_add(delay(tx, failures, Some(after)));
    if failures >= MAX_TOOL_FAILURES || not_before > since.saturating_add(limits.retry_ms) {
        return false;
    }
    suspension::withdraw_question_of_call(tx, id, "the call is made again");
    suspend::unpark(tx, id, None);
    tx.change_call(id, |call| {
        call.record.attempt += 1;
        call.record.retrying = Some(Retrying { failures, since, not_before });
    });
    true
}

/// How often a model is asked that gives answers which cannot be used.
fn max_attempts(state: &State) -> u32 {
    state.run_settings().execution.max_model_attempts.max(1)
}

/// Exponential backoff, with jitter from the seed so that threads that failed together do not retry together. Never
/// earlier than the provider asked for.
fn delay(tx: &Tx<'_>, failures: u32, retry_after: Option<Millis>) -> Millis {
    let jittered = send::backoff_delay(tx.stamp.seed, BACKOFF_MS, MAX_BACKOFF_MS, failures - 1);
    retry_after.map_or(jittered, |after| after.max(jittered))
}
