//! What follows a failed call. For a model call: another attempt, another model, a shorter prompt, or the end of the
//! step. For a tool call: another attempt, if the tool declared that this is safe.

use crate::domain::Millis;
use crate::domain::ids::CallId;
use crate::domain::model::{FailureKind, ModelFailure};
use crate::domain::tool::{Retrying, ToolError};
use crate::pes::peers::send;
use crate::pes::people::suspend;
use crate::pes::settle::suspension;
use crate::pes::state::{ModelCall, State};
use crate::pes::tx::Tx;

const BACKOFF_MS: Millis = 500;
const BACKOFF_MOST_MS: Millis = 30_000;
/// After this many failures, or if it must be waited for longer than that, a model is given up, provided that there is
/// a fallback.
const BEFORE_FALLBACK: u32 = 2;
const PATIENCE_MS: Millis = 5_000;
/// How often an idempotent tool call may fail before its error counts.
const TOOL_FAILURES: u32 = 5;

enum Next {
    /// The same model, after this delay.
    Again(Millis),
    /// The next fallback model, at once.
    Other,
    /// The same model with a shorter prompt, at once.
    Tighter,
    GiveUp,
}

/// Prepares the call for its next attempt and returns the delay; `None`: there is no next attempt.
pub(crate) fn prepare_next(tx: &mut Tx<'_>, call: &mut ModelCall, failure: &ModelFailure) -> Option<Millis> {
    // The queue of this server is not the model's fault: the call is not given up for it, and the time in the queue
    // does not count.
    let is_ours = failure.kind == FailureKind::Saturated;
    call.excuse(failure.queued_ms);
    if !is_ours {
        call.failures += 1;
        call.failing_since.get_or_insert(tx.stamp.now);
    }
    match after(tx, call, failure) {
        Next::Again(delay) => {
            call.excuse(if is_ours { delay } else { 0 });
            Some(delay)
        }
        Next::Other => {
            call.choice += 1;
            call.failures = 0;
            call.tight = false;
            Some(0)
        }
        Next::Tighter => {
            call.tight = true;
            Some(0)
        }
        Next::GiveUp => None,
    }
}

fn after(tx: &Tx<'_>, call: &ModelCall, failure: &ModelFailure) -> Next {
    let has_other = tx.state.run_settings().choice(call.choice + 1).is_some();
    let or_other = || if has_other { Next::Other } else { Next::GiveUp };
    let limits = tx.world.limits;
    let window = match failure.kind {
        FailureKind::Refused | FailureKind::TooLarge => return or_other(),
        FailureKind::TooLong if call.tight => return or_other(),
        FailureKind::TooLong => return Next::Tighter,
        FailureKind::Saturated | FailureKind::BreakerOpen if has_other => return Next::Other,
        FailureKind::Saturated => return Next::Again(delay(tx, 1, failure.retry_after_ms)),
        FailureKind::Broken | FailureKind::Incomplete if has_answered_enough(tx.state, call) => return or_other(),
        FailureKind::Unreachable => limits.connect_retry_ms.min(limits.retry_ms),
        FailureKind::Retry
        | FailureKind::Broken
        | FailureKind::Incomplete
        | FailureKind::Interrupted
        | FailureKind::Overflow
        | FailureKind::BreakerOpen => limits.retry_ms,
    };
    let delay = delay(tx, call.failures, failure.retry_after_ms);
    if has_other && (call.failures >= BEFORE_FALLBACK || delay > PATIENCE_MS) {
        return Next::Other;
    }
    let until = call.failing_since.unwrap_or(tx.stamp.now).saturating_add(window);
    if tx.stamp.now.saturating_add(delay) <= until { Next::Again(delay) } else { or_other() }
}

/// `true`: the tool call is made again, under the same idempotency key, after a delay that grows with its failures. It
/// keeps its turn in its batch.
pub(crate) fn try_again(tx: &mut Tx<'_>, id: &CallId, error: &ToolError) -> bool {
    let (now, limits) = (tx.stamp.now, tx.world.limits);
    let Some(record) = tx.state.calls.get(id).map(|call| &call.record) else { return false };
    let Some(after) = error.retry_after_ms.filter(|_| record.idempotent) else { return false };
    let (failures, since) = record.retrying.as_ref().map_or((1, now), |last| (last.failures + 1, last.since));
    let not_before = now.saturating_add(delay(tx, failures, Some(after)));
    if failures >= TOOL_FAILURES || not_before > since.saturating_add(limits.retry_ms) {
        return false;
    }
    suspension::forget(tx, id, "the call is made again");
    suspend::unpark(tx, id, None);
    tx.change_call(id, |call| {
        call.record.attempt += 1;
        call.record.retrying = Some(Retrying { failures, since, not_before });
    });
    true
}

fn has_answered_enough(state: &State, call: &ModelCall) -> bool {
    call.failures >= state.run_settings().execution.max_model_attempts.max(1)
}

/// Exponential backoff, with jitter from the seed so that threads that failed together do not retry together. Never
/// earlier than the provider asked for.
fn delay(tx: &Tx<'_>, failures: u32, retry_after: Option<Millis>) -> Millis {
    let jittered = send::backing_off(tx.stamp.seed, BACKOFF_MS, BACKOFF_MOST_MS, failures - 1);
    retry_after.map_or(jittered, |after| after.max(jittered))
}
