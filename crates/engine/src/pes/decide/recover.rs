//! After a crash: only slots that were `Running` under an older epoch are handled. A model call is made again as a new
//! attempt; a tool call that may have been sent is repeated only if it only reads or its tool declared that this is safe.

use crate::domain::ids::{CallId, ItemId};
use crate::domain::tool::{CallCode, CallStatus, ToolClass, ToolError};
use crate::pes::decide::reply;
use crate::pes::peers::failure;
use crate::pes::people::suspend;
use crate::pes::run::end_early;
use crate::pes::settle::call::{self, CallEnd};
use crate::pes::settle::suspension;
use crate::pes::state::{ModelCall, ModelSlot};
use crate::pes::tx::{EventOutcome, HandlerResult, Tx};
use crate::pes::work::batch;

/// After this many lost attempts a call is not repeated, even if that is safe: a person is asked, or, if the tool only
/// reads, the call has failed.
const MAX_LOST_ATTEMPTS: u32 = 10;
/// Why a call that ran when the process stopped may have had its effect.
const STOPPED: &str = "The process stopped during the call.";

/// A new lease holder took the thread over.
pub(crate) fn recover(tx: &mut Tx<'_>) -> HandlerResult {
    tx.is_progress = false;
    let has_tasks = failure::recover(tx);
    if tx.state.run.is_none() {
        return Ok(if has_tasks { EventOutcome::Applied } else { EventOutcome::Ignored });
    }
    if tx.state.is_cancelling() {
        end_early::complete_cancel(tx);
        return Ok(EventOutcome::Applied);
    }
    if let Some(call) = tx.active().model.clone().filter(|call| is_lost(tx, call)) {
        reply::on_model_interrupted(tx, None, call);
    }
    let open: Vec<ItemId> = tx.state.list.open().map(|item| item.def.id.clone()).collect();
    for item in &open {
        recover_item(tx, item);
    }
    Ok(EventOutcome::Applied)
}

fn recover_item(tx: &mut Tx<'_>, id: &ItemId) {
    let Some(work) = tx.state.loop_of(id).cloned() else { return };
    if let Some(call) = work.model.filter(|call| is_lost(tx, call)) {
        reply::on_model_interrupted(tx, Some(id), call);
    }
    for call in work.batch {
        recover_call(tx, &call);
    }
}

/// A running call of another lease holder may have been sent, and nobody will report its end.
fn recover_call(tx: &mut Tx<'_>, id: &CallId) {
    let Some(record) = tx.state.calls.get(id).map(|call| &call.record) else { return };
    if record.status != CallStatus::Running || record.epoch == tx.stamp.holder {
        return;
    }
    let only_reads = record.class == Some(ToolClass::Read);
    if (record.idempotent || only_reads) && record.attempt < MAX_LOST_ATTEMPTS {
        suspension::withdraw_question_of_call(tx, id, "the call was interrupted");
        call::mark_lost(tx, id, STOPPED);
        suspend::unpark(tx, id, None);
        tx.change_call(id, |call| call.record.attempt += 1);
    } else if only_reads {
        let message = format!("The process stopped during attempt {}, which was the last one.", record.attempt);
        call::end(tx, id, CallEnd::error(ToolError::new(CallCode::Failed, message)));
        batch::on_call_ended(tx, id);
    } else {
        suspend::put_in_doubt(tx, id, STOPPED);
    }
}

fn is_lost(tx: &Tx<'_>, call: &ModelCall) -> bool {
    match &call.slot {
        ModelSlot::Ready { .. } => false,
        ModelSlot::Running { epoch, .. } => Some(*epoch) != tx.stamp.holder,
    }
}
