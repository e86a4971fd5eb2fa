//! The calls of one reply: judged together, then run in order, one at a time, or in parallel if all of them only read.
//! A call that waits for a person does not hold up the others. When all have ended, the model sees one result per call,
//! in order.

use serde_json::{Value, json};

use crate::domain::digest;
use crate::domain::facts::ToolCallBody;
use crate::domain::ids::{CallId, ItemId};
use crate::domain::settings::StateSavingStrategy;
use crate::domain::task::Delegation;
use crate::domain::thread::AgentState;
use crate::domain::tool::{
    CallCode, CallRecord, CallStatus, Judgement, Proposal, ToolCall, ToolClass, ToolError, ToolOutcome, Verdict,
};
use crate::parse::CallDraft;
use crate::pes::people::suspend;
use crate::pes::plan::{later_calls, merge, redo, review};
use crate::pes::settle::call::{self, CallEnd};
use crate::pes::state::{ReceivedReply, State, TurnContent};
use crate::pes::tx::{EventOutcome, HandlerResult, Tx};
use crate::pes::work::{agent_state, item_loop, permits, retry};

/// Opens a batch: the calls of a reply, or calls that no model asked for, are judged, recorded and made ready; calls
/// that need a person are parked.
pub(crate) fn open(tx: &mut Tx<'_>, id: &ItemId, replied: Option<&ReceivedReply<'_>>, mut drafts: Vec<CallDraft>) {
    let iteration = match replied {
        Some(replied) => replied.call.iteration,
        None => tx.state.loop_of(id).map_or(0, |work| work.iteration),
    };
    let most = tx.world.limits.calls_per_reply;
    let dropped = drafts.len().saturating_sub(most);
    drafts.truncate(most);
    let mut batch = Vec::with_capacity(drafts.len());
    let mut verdicts = Vec::with_capacity(drafts.len());
    for draft in drafts {
        let judgement = redo::require_approval(tx.state, id, &draft.name, judge(tx, &draft));
        let judgement = later_calls::require_approval(tx.state, &draft, judgement);
        let judgement = review::require_approval_of_unnamed(tx.state, id, &draft.name, judgement);
        batch.push(new_call(tx, id, iteration, draft, &judgement));
        verdicts.push(judgement.verdict);
    }
    match replied {
        Some(replied) => item_loop::store_reply(tx, id, replied, batch.clone()),
        None => tx.add_turn(id, TurnContent::Model { text: json!(""), calls: batch.clone(), replay: None }),
    }
    if !batch.is_empty() {
        record_calls(tx, id, replied, iteration, &batch);
    }
    if dropped > 0 {
        let text = format!("Only the first {most} calls of your reply were taken; {dropped} were not made.");
        tx.add_turn(id, TurnContent::Engine { text });
    }
    let is_together = tx.state.run_settings().execution.parallel_reads && verdicts.iter().all(suspend::only_reads);
    tx.change_loop(id, |work| {
        work.batch = batch.clone();
        work.is_together = is_together;
    });
    for (call, verdict) in batch.iter().zip(verdicts) {
        apply_verdict(tx, call, verdict);
    }
    if batch.is_empty() {
        return end_batch(tx, id);
    }
    continue_if_done(tx, id);
}

fn judge(tx: &Tx<'_>, draft: &CallDraft) -> Judgement {
    let run = tx.state.active_run();
    match &draft.arguments {
        Ok(arguments) => {
            let (thread, settings, tool) = (&run.thread_id, &run.settings, draft.name.as_str());
            tx.world.tools.judge(&Proposal { thread, settings, tool, arguments })
        }
        Err(why) => Verdict::Refuse(ToolError::new(CallCode::InvalidArguments, why.clone())).into(),
    }
}

fn new_call(tx: &mut Tx<'_>, item: &ItemId, iteration: u32, draft: CallDraft, judgement: &Judgement) -> CallId {
    let call_id = tx.mint.call();
    let verdict = &judgement.verdict;
    let arguments = draft.arguments.unwrap_or_else(|_| json!({}));
    // Computed before large arguments are stored as payloads.
    let digest = matches!(verdict, Verdict::Ask { .. }).then(|| digest::of_call(&draft.name, &arguments));
    let delegates = matches!(verdict, Verdict::Delegate | Verdict::Ask { delegates: true, .. });
    let delegation = delegates.then(|| Delegation::new(tx.mint.task(), &arguments));
    let arguments = tx.store(format!("{call_id}.arguments"), arguments);
    let record = CallRecord {
        call_id: call_id.clone(),
        tool_name: draft.name,
        arguments,
        modified_arguments: None,
        edited_by: Vec::new(),
        run_id: tx.state.active_run().run_id.clone(),
        item_id: Some(item.clone()),
        iteration,
        attempt: 1,
        status: CallStatus::Ready,
        provider_call_id: draft.provider_id,
        idempotent: verdict.is_idempotent(),
        class: verdict.class(),
        policy: judgement.ruling.clone(),
        digest,
        delegation,
        epoch: None,
        retrying: None,
        lost: None,
        asked: None,
        result: None,
        created_at: tx.stamp.now,
        updated_at: tx.stamp.now,
    };
    tx.add_call(record);
    if let Some(item) = tx.state.list.get_mut(item) {
        item.calls.push(call_id.clone());
    }
    call_id
}

fn record_calls(tx: &mut Tx<'_>, id: &ItemId, replied: Option<&ReceivedReply<'_>>, iteration: u32, batch: &[CallId]) {
    let calls = batch.iter().filter_map(|call| tx.state.calls.get(call)).map(|call| {
        let CallRecord { call_id, tool_name, arguments, .. } = &call.record;
        ToolCall::new(call_id.clone(), tool_name.clone(), arguments.clone())
    });
    let tool_calls = calls.collect();
    let stream_id = replied.map(|replied| replied.stream.clone());
    tx.record(Some(id), "Tools called", ToolCallBody { stream_id, iteration, tool_calls });
}

/// Applies what policy and schema decided about the call.
fn apply_verdict(tx: &mut Tx<'_>, id: &CallId, verdict: Verdict) {
    match verdict {
        Verdict::Run { .. } | Verdict::Delegate => {}
        Verdict::Refuse(fault) => call::end(tx, id, CallEnd::error(fault)),
        Verdict::Ask { message, schema, risk, .. } => suspend::park_for_approval(tx, id, message, schema, risk),
        Verdict::Input { message, schema } => suspend::park_for_input(tx, id, message, schema),
        Verdict::Client => suspend::park_for_client(tx, id),
    }
}

/// An answer to an attempt that is not open changes nothing.
pub(crate) fn on_tool_returned(tx: &mut Tx<'_>, id: &CallId, attempt: u32, outcome: ToolOutcome) -> HandlerResult {
    if !tx.state.is_running_as(id, attempt) {
        return Ok(EventOutcome::Ignored);
    }
    let Err(error) = &outcome.result else {
        end_with_outcome(tx, id, outcome);
        on_call_ended(tx, id);
        return Ok(EventOutcome::Applied);
    };
    if error.has_no_effect {
        tx.change_call(id, |call| call.record.lost = None);
    } else if error.is_lost() {
        call::mark_lost(tx, id, &error.message);
    }
    let doubt = why_in_doubt(tx.state, id, error);
    if tx.state.is_cancelling() {
        let result = doubt.map_or(outcome.result, |why| Err(ToolError::new(CallCode::Unknown, why)));
        end_with_outcome(tx, id, ToolOutcome { result, ..outcome });
    } else if retry::retry_tool_call(tx, id, error) {
        return Ok(EventOutcome::Applied);
    } else if let Some(why) = doubt {
        suspend::put_in_doubt(tx, id, &why);
    } else {
        end_with_outcome(tx, id, outcome);
    }
    on_call_ended(tx, id);
    Ok(EventOutcome::Applied)
}

/// Why a call whose last attempt failed with this error may have had its effect, in that attempt or in an earlier one.
/// `None`: it is not in doubt, as no call that only reads is.
fn why_in_doubt(state: &State, id: &CallId, error: &ToolError) -> Option<String> {
    let record = &state.calls.get(id)?.record;
    if record.class == Some(ToolClass::Read) {
        return None;
    }
    if error.is_lost() {
        return Some(error.message.clone());
    }
    let first = record.lost.as_deref()?;
    Some(format!("{}. The last attempt failed: {}", first.trim_end_matches('.'), error.message))
}

/// Ends the call with its outcome.
pub(crate) fn end_with_outcome(tx: &mut Tx<'_>, id: &CallId, outcome: ToolOutcome) {
    let ToolOutcome { result, state_patch, .. } = outcome;
    let result = result.and_then(|output| save_patch(tx, id, state_patch).map(|()| output));
    call::end(tx, id, ToolOutcome { result, state_patch: None, ..outcome }.into());
}

/// With `explicit` saving, only the tool made for it changes the application's state.
fn save_patch(tx: &mut Tx<'_>, id: &CallId, patch: Option<Value>) -> Result<(), ToolError> {
    let Some(patch) = patch else { return Ok(()) };
    let is_asked_for = tx.state.calls.get(id).is_some_and(|call| call.record.tool_name == AgentState::SET_TOOL);
    match tx.state.run_settings().state_saving {
        StateSavingStrategy::Explicit if !is_asked_for => Ok(()),
        StateSavingStrategy::Explicit | StateSavingStrategy::Implicit => {
            agent_state::patch(tx, patch).map_err(|fault| ToolError::new(fault.code.as_str(), fault.detail))
        }
    }
}

/// A call ended or was unparked: its item may continue, unless its run is being cancelled.
pub(crate) fn on_call_ended(tx: &mut Tx<'_>, call: &CallId) {
    if tx.state.is_cancelling() {
        return;
    }
    let item = tx.state.calls.get(call).and_then(|call| call.record.item_id.clone());
    if let Some(item) = item {
        continue_if_done(tx, &item);
        permits::wait(tx, &item);
    }
}

/// Once the last open call of the batch has ended, the model sees the results.
fn continue_if_done(tx: &mut Tx<'_>, id: &ItemId) {
    let is_done = tx.state.loop_of(id).is_some_and(|work| {
        !work.batch.is_empty() && work.batch.iter().all(|call| tx.state.call_status(call) == Some(CallStatus::Done))
    });
    if is_done {
        end_batch(tx, id);
    }
}

/// The batch is over, or no call of the reply was made.
fn end_batch(tx: &mut Tx<'_>, id: &ItemId) {
    let has_patch = tx.change_loop(id, |work| {
        work.batch.clear();
        std::mem::take(&mut work.has_patch)
    });
    if has_patch == Some(true) {
        apply_waiting_patch(tx, id);
    }
    // A simple core decides the next step when it is asked next.
    if tx.state.simple.is_none() {
        item_loop::next_iteration(tx, id);
    }
}

fn apply_waiting_patch(tx: &mut Tx<'_>, id: &ItemId) {
    let turns = tx.state.item(id).map(|item| item.turns.as_slice()).unwrap_or_default();
    let patch = turns.iter().rev().find_map(|turn| match &turn.content {
        TurnContent::Patch { shown, patch } => Some((*shown, patch.clone())),
        TurnContent::Model { .. } | TurnContent::Engine { .. } => None,
    });
    if let Some((shown, patch)) = patch {
        merge::apply_patch(tx, id, shown, patch);
    }
}
