//! A conversation that is longer than the model's context: its oldest messages are summed up once, by a model call of
//! its own, and from then on the summary replaces them in prompts. The summary is extended when further messages must
//! be left out: because they do not fit, or because there are more new ones than prompts show in their own words
//! (`historyLimit`). So every message after the summary's beginning is in the summary or in the prompt.

use serde_json::Value;

use crate::SummaryExtent;
use crate::domain::Millis;
use crate::domain::facts::{StateUpdateBody, Summary};
use crate::domain::ids::{ItemId, StreamId};
use crate::domain::model::{FailureKind, ModelFailure};
use crate::pes::state::{ModelCall, SummaryRequest};
use crate::pes::tx::{EventOutcome, HandlerResult, Tx};

/// The prompt of that attempt would leave messages out: they are summed up first, and then the call is made again.
pub(crate) fn on_overflow(tx: &mut Tx<'_>, stream: &StreamId, attempt: u32, extent: SummaryExtent) -> HandlerResult {
    let Some((item, mut call)) = tx.state.open_model_call(stream, attempt) else { return Ok(EventOutcome::Ignored) };
    let why = "the conversation is longer than a prompt tells: its oldest messages are summed up first";
    let failure = ModelFailure::new(FailureKind::Overflow, why);
    tx.record_stream_error(stream, item.as_ref(), &failure, Some(0));
    call.next_attempt(None);
    let (choice, iteration, shown) = (call.choice, call.iteration, call.shown);
    let sums = Some(SummaryRequest { extent, before: Box::new(call) });
    tx.put_model_call(item.as_ref(), ModelCall { choice, sums, ..ModelCall::ready(iteration, shown) });
    Ok(EventOutcome::Applied)
}

/// The summary call replied. `text` is the reply as it is stored.
pub(crate) fn on_summary_reply(tx: &mut Tx<'_>, item: Option<&ItemId>, sums: SummaryRequest, reply: &str, text: Value) {
    if reply.trim().is_empty() {
        return on_summary_failed(tx, item, sums, None);
    }
    let SummaryExtent { upto, messages, bytes } = sums.extent;
    let (covered, length) = tx.state.head.summary.take().map_or((0, 0), |so_far| (so_far.messages, so_far.bytes));
    let summary = Summary { text, bytes: reply.len() as u64, upto, messages: covered + messages };
    set_summary(tx, summary, bytes + length);
    // The summary was already made because the prompt was too long.
    tx.put_model_call(item, ModelCall { may_leave_out: true, must_shorten: false, ..*sums.before });
}

/// Sets the summary, which from now on replaces `covered_bytes` bytes of messages. It is recorded because copies of the
/// thread need it.
pub(crate) fn set_summary(tx: &mut Tx<'_>, summary: Summary, covered_bytes: u64) {
    let update = tx.state_update(vec!["summary".to_owned()]);
    let body = StateUpdateBody { summary: Some(summary.clone()), ..update };
    tx.record(None, "Conversation summed up", body);
    let head = &mut tx.state.head;
    head.history_bytes = (head.history_bytes + summary.bytes).saturating_sub(covered_bytes);
    head.summary = Some(summary);
}

/// The summary call failed: the oldest messages are left out. The time for which the models failed counts for the
/// waiting call too.
pub(crate) fn on_summary_failed(
    tx: &mut Tx<'_>,
    item: Option<&ItemId>,
    sums: SummaryRequest,
    failing_since: Option<Millis>,
) {
    let failing_since = sums.before.failing_since.or(failing_since);
    tx.put_model_call(item, ModelCall { may_leave_out: true, failing_since, ..*sums.before });
}
