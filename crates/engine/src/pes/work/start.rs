//! Slots of model calls and tool calls become `Running` here, and nowhere else (those of tasks in `peers/send.rs`): only
//! under a lease, only when due, and never while a pause or a cancel holds them back. A call that needs no effect is
//! answered instead, when its turn comes.

use crate::domain::ids::{CallId, ItemId};
use crate::domain::payload;
use crate::domain::tool::{CallCode, CallRecord, CallStatus, Proposal, ToolError, ToolOutcome, Verdict};
use crate::pes::peers::send;
use crate::pes::plan::redo;
use crate::pes::state::funds::{self, Funds};
use crate::pes::state::{ModelCall, ModelSlot, Reserved, wake};
use crate::pes::tx::Tx;
use crate::pes::work::batch;

/// Starts the planner's or the synthesizer's call if it is due.
pub(crate) fn start_main(tx: &mut Tx<'_>) {
    let Some(mut call) = tx.active().model.clone() else { return };
    if start_model(tx, &mut call, None) {
        tx.active().model = Some(call);
    }
}

/// Starts what may start of this item: its model call, or the next calls of its batch. `true`: a call was answered at
/// once, so more may start.
pub(crate) fn start_item(tx: &mut Tx<'_>, id: &ItemId) -> bool {
    let Some(work) = tx.state.loop_of(id) else { return false };
    if let Some(mut call) = work.model.clone() {
        if start_model(tx, &mut call, Some(id)) {
            tx.change_loop(id, |work| work.model = Some(call));
        }
        return false;
    }
    let (batch, is_together) = (work.batch.clone(), work.is_together);
    let (mut is_answered, mut is_turn_taken) = (false, false);
    for call in &batch {
        match tx.state.call_status(call) {
            // A call that waits for its retry keeps its turn until then.
            Some(CallStatus::Ready) if !wake::is_due(tx.stamp.now, tx.state.retries_at(call)) => is_turn_taken = true,
            Some(CallStatus::Ready)
                if is_together || !(is_turn_taken || tx.state.batch_has(&batch, CallStatus::Running)) =>
            {
                is_answered |= start_call(tx, call);
            }
            Some(CallStatus::AtPeer) => start_sending(tx, call),
            Some(CallStatus::Ready | CallStatus::Running | CallStatus::Parked | CallStatus::Done) | None => {}
        }
    }
    is_answered
}

fn start_sending(tx: &mut Tx<'_>, call: &CallId) {
    let task = tx.state.task_of(call).filter(|task| task.send_slot().is_some());
    if let Some(id) = task.map(|task| task.task_id.clone()).filter(|_| tx.state.may_begin()) {
        send::start(tx, &id);
    }
}

/// `true`: the call was started.
fn start_model(tx: &mut Tx<'_>, call: &mut ModelCall, item: Option<&ItemId>) -> bool {
    let (Some(epoch), ModelSlot::Ready { not_before }) = (tx.stamp.holder, &call.slot) else { return false };
    let not_before = *not_before;
    if !wake::is_due(tx.stamp.now, not_before) || !tx.state.may_begin() {
        return false;
    }
    let Funds::Enough(reserved) = funds::for_call(tx.state, tx.world, call) else { return false };
    // Since it was due, only a pause, a stop of the server, or reservations of other calls can have delayed it.
    call.exclude_wait(tx.stamp.now - not_before.unwrap_or(tx.stamp.now));
    let stream = tx.mint.stream();
    call.shown = tx.state.head.plan_version;
    if let Some(id) = item {
        call.notes = redo::catch_up(tx, id);
    }
    let under = tx.world.allowance.caps().map(|caps| (tx.stamp.now, caps));
    call.reserved = reserved.map(|reserved| Reserved { under, ..reserved });
    call.slot = ModelSlot::Running { epoch, stream: stream.clone() };
    tx.record_stream_start(&stream, item, tx.state.model_phase(item), call);
    true
}

/// `true`: it was answered at once.
fn start_call(tx: &mut Tx<'_>, id: &CallId) -> bool {
    let Some(epoch) = tx.stamp.holder else { return false };
    if !tx.state.may_begin() {
        return false;
    }
    if let Some(outcome) = immediate_outcome(tx, id) {
        tx.change_call(id, |call| call.record.epoch = Some(epoch));
        batch::end_with_outcome(tx, id, outcome);
        batch::on_call_ended(tx, id);
        return true;
    }
    if let Some(delegation) = tx.state.calls.get(id).and_then(|call| call.record.delegation.clone()) {
        send::hand_over(tx, id, delegation, epoch);
        return false;
    }
    tx.set_call_status(id, CallStatus::Running);
    tx.change_call(id, |call| call.record.epoch = Some(epoch));
    false
}

/// The outcome of a call that needs no effect. Approved calls do need one: what was approved is compared with what runs
/// where effects are performed. So do large arguments, which are read there.
fn immediate_outcome(tx: &Tx<'_>, id: &CallId) -> Option<ToolOutcome> {
    let record = &tx.state.calls.get(id)?.record;
    let CallRecord { tool_name, arguments, digest, .. } = record;
    if digest.is_some() || payload::reference(arguments).is_some() {
        return None;
    }
    let outcome = tx.world.tools.at_once(tool_name, arguments, tx.stamp.now, tx.world.limits)?;
    Some(denial_by_now(tx, record).map_or(outcome, ToolOutcome::failed))
}

/// Why the policy denies a call by now that waited for its turn. Effects are judged again where they are performed.
fn denial_by_now(tx: &Tx<'_>, record: &CallRecord) -> Option<ToolError> {
    if tx.stamp.now == record.created_at {
        return None;
    }
    let run = tx.state.active_run();
    let CallRecord { tool_name: tool, arguments, .. } = record;
    let judgement =
        tx.world.tools.judge(&Proposal { thread: &run.thread_id, settings: &run.settings, tool, arguments });
    let Verdict::Refuse(error) = judgement.verdict else { return None };
    let message = format!("{} Nothing was done.", error.message);
    error.has(CallCode::Denied).then(|| ToolError { message, ruling: judgement.ruling.map(Box::new), ..error })
}
