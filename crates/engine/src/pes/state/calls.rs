//! Calls, their questions and their tasks: pure questions about the state.

use crate::domain::Millis;
use crate::domain::hitl::{Suspension, SuspensionKind};
use crate::domain::ids::{CallId, ItemId, StreamId, SuspensionId};
use crate::domain::task::{ActionSlot, Task};
use crate::domain::tool::{CallRecord, CallStatus, ToolClass, ToolStatus};
use crate::pes::state::{Item, ItemLoop, ModelCall, State};

/// The number from which on calls belong to the item's current attempt.
fn first_ord_of(item: &Item) -> i64 {
    item.progress.work.as_ref().map_or(0, |work| work.first_ord)
}

/// The call succeeded and did more than read.
fn has_lasting_effect(record: &CallRecord) -> bool {
    let is_success = record.result.as_ref().is_some_and(|result| result.status == ToolStatus::Success);
    is_success && record.class != Some(ToolClass::Read)
}

/// The call may have had an effect though it has no result: a person skipped it or gave it up, its result could not be
/// stored, or its outcome is unknown (also without an epoch: the caller's own program had it). This holds for an
/// idempotent call only if an attempt of it was lost: it was safe to repeat under its own key, and another call has
/// another key.
fn has_unknown_effect(record: &CallRecord) -> bool {
    let error = record.result.as_ref().and_then(|result| result.error.as_ref());
    let was_lost = record.lost.is_some();
    let may_have_run =
        error.is_some_and(|error| was_lost || error.is_open_ended() && (record.epoch.is_some() || error.is_lost()));
    let is_safe = record.class == Some(ToolClass::Read) || (record.idempotent && !was_lost);
    may_have_run && !is_safe
}

/// Whether the call had an effect that lasts, or may have had one.
pub(crate) fn may_have_effect(record: &CallRecord) -> bool {
    has_lasting_effect(record) || has_unknown_effect(record)
}

impl State {
    /// Whether the call's slot is `Running` in this attempt.
    pub(crate) fn is_running_as(&self, id: &CallId, attempt: u32) -> bool {
        let record = self.calls.get(id).map(|call| &call.record);
        record.is_some_and(|record| record.status == CallStatus::Running && record.attempt == attempt)
    }

    /// The open model calls: that of the planner or the synthesizer, then those of the items.
    pub(crate) fn model_calls(&self) -> impl Iterator<Item = &ModelCall> {
        self.main_call().into_iter().chain(self.open_loops().filter_map(|work| work.model.as_ref()))
    }

    /// The model calls in flight.
    pub(crate) fn model_calls_under_way(&self) -> impl Iterator<Item = &ModelCall> {
        self.model_calls().filter(|call| call.is_running())
    }

    /// Whether the call was ever started: it is running, or in doubt after a crash.
    pub(crate) fn may_have_started(&self, id: &CallId) -> bool {
        self.calls.get(id).is_some_and(|call| match call.record.status {
            CallStatus::Running | CallStatus::AtPeer => true,
            CallStatus::Parked | CallStatus::Ready => call.record.epoch.is_some(),
            CallStatus::Done => false,
        })
    }

    /// Whether the caller's own program has the call and has not answered yet.
    pub(crate) fn is_at_client(&self, id: &CallId) -> bool {
        let mut open = self.suspensions.values().filter(|open| open.call_id.as_ref() == Some(id));
        open.any(|open| open.kind == SuspensionKind::ClientTool)
    }

    /// The open question about a call.
    pub(crate) fn suspension_of(&self, call: &CallId) -> Option<SuspensionId> {
        let open = self.suspensions.values();
        open.filter(|s| s.waiting_call() == Some(call)).map(|s| s.suspension_id.clone()).next()
    }

    /// The task of a delegated call, while that needs further work.
    pub(crate) fn task_of(&self, call: &CallId) -> Option<&Task> {
        let delegation = self.calls.get(call)?.record.delegation.as_ref()?;
        self.tasks.get(&delegation.task_id).map(|(_, task)| task)
    }

    /// The slot of sending the call to an agent, if it is being sent or waits for that.
    pub(crate) fn send_slot(&self, call: &CallId) -> Option<ActionSlot> {
        let is_at_peer = self.call_status(call) == Some(CallStatus::AtPeer);
        self.task_of(call).filter(|_| is_at_peer)?.send_slot()
    }

    /// Running calls whose question has a reply that was not yet delivered to the running code.
    pub(crate) fn calls_with_new_reply(&self) -> impl Iterator<Item = &CallId> {
        let batches = self.open_loops().flat_map(|work| &work.batch);
        batches.filter(|id: &&CallId| {
            let record = self.calls.get(*id).map(|call| &call.record);
            record.filter(|record| record.status == CallStatus::Running).is_some_and(|record| {
                record.asked.as_ref().is_some_and(|asked| asked.reply.is_some() && !asked.is_told)
            })
        })
    }

    /// The model call that this attempt of a stream answers, and its item.
    pub(crate) fn open_model_call(&self, stream: &StreamId, attempt: u32) -> Option<(Option<ItemId>, ModelCall)> {
        if let Some(call) = self.main_call().filter(|call| call.answers(stream, attempt)) {
            return Some((None, call.clone()));
        }
        self.list.open().find_map(|item| {
            let call = item.progress.work.as_ref()?.model.as_ref()?;
            call.answers(stream, attempt).then(|| (Some(item.def.id.clone()), call.clone()))
        })
    }

    /// When a failed call is made again.
    pub(crate) fn retries_at(&self, call: &CallId) -> Option<Millis> {
        self.calls.get(call)?.record.retrying.as_ref().map(|retrying| retrying.not_before)
    }

    pub(crate) fn call_status(&self, id: &CallId) -> Option<CallStatus> {
        self.calls.get(id).map(|call| call.record.status)
    }

    pub(crate) fn suspension(&self, id: &SuspensionId) -> Option<&Suspension> {
        self.suspensions.values().find(|open| open.suspension_id == *id)
    }

    /// The calls of an item's current attempt.
    pub(crate) fn calls_of<'a>(&'a self, item: &'a Item) -> impl Iterator<Item = &'a CallRecord> {
        let first = first_ord_of(item);
        item.calls.iter().filter_map(|id| self.calls.get(id)).filter(move |call| call.ord >= first).map(|c| &c.record)
    }

    /// The successful calls of an item's earlier attempts that did more than read: their effects last. An item that is
    /// done again after it was completed has none.
    pub(crate) fn earlier_effective_calls<'a>(&'a self, item: &'a Item) -> impl Iterator<Item = &'a CallRecord> {
        let first = if item.progress.redone { 0 } else { first_ord_of(item) };
        let earlier = item.calls.iter().filter_map(|id| self.calls.get(id)).filter(move |call| call.ord < first);
        earlier.map(|call| &call.record).filter(|record| has_lasting_effect(record))
    }

    /// The calls of an item, of this attempt and of earlier ones, that may have had an effect though they have no
    /// result. For an item that is done again after it was completed, only this attempt counts.
    pub(crate) fn calls_with_unknown_effect<'a>(&'a self, item: &'a Item) -> impl Iterator<Item = &'a CallRecord> {
        let first = if item.progress.redone { first_ord_of(item) } else { 0 };
        let calls = item.calls.iter().filter_map(|id| self.calls.get(id)).filter(move |call| call.ord >= first);
        calls.map(|call| &call.record).filter(|record| has_unknown_effect(record))
    }

    /// Whether a call of this tool by an earlier attempt of the item had an effect that lasts, or may have had one. All
    /// calls of an item that is not under way are of earlier attempts.
    pub(crate) fn has_earlier_effect(&self, item: &Item, tool: &str) -> bool {
        let first = item.progress.work.as_ref().map_or(i64::MAX, |work| work.first_ord);
        let earlier = item.calls.iter().filter_map(|id| self.calls.get(id)).filter(|call| call.ord < first);
        let mut of_tool = earlier.map(|call| &call.record).filter(|record| record.tool_name == tool);
        of_tool.any(may_have_effect)
    }

    /// Whether any call of a batch has this status.
    pub(crate) fn batch_has(&self, batch: &[CallId], status: CallStatus) -> bool {
        batch.iter().any(|id| self.call_status(id) == Some(status))
    }

    /// The calls of the item's open batch that have not ended.
    pub(crate) fn open_calls_of(&self, item: &ItemId) -> Vec<CallId> {
        let Some(work) = self.loop_of(item) else { return Vec::new() };
        work.batch.iter().filter(|id| self.call_status(id) != Some(CallStatus::Done)).cloned().collect()
    }

    /// Whether the item has a slot that is `Ready` or `Running`, or will get one in this transition. An item that waits
    /// for an agent has none.
    pub(crate) fn is_busy(&self, work: &ItemLoop) -> bool {
        let is_sending = work.batch.iter().any(|call| self.send_slot(call).is_some());
        let has = |status| self.batch_has(&work.batch, status);
        let waits = has(CallStatus::Ready) || has(CallStatus::Running) || is_sending;
        work.model.is_some() || waits || self.is_undecided(work)
    }

    /// Whether a simple core must decide the next step before anything else can happen.
    fn is_undecided(&self, work: &ItemLoop) -> bool {
        self.simple.is_some() && work.model.is_none() && work.batch.is_empty()
    }

    pub(crate) fn is_item_undecided(&self, id: &ItemId) -> bool {
        self.loop_of(id).is_some_and(|work| self.is_undecided(work))
    }

    /// The number of an open question's row.
    pub(crate) fn ord_of_suspension(&self, id: &SuspensionId) -> Option<i64> {
        self.suspensions.iter().find(|(_, open)| open.suspension_id == *id).map(|(ord, _)| *ord)
    }

    /// Empty if there is no such call.
    pub(crate) fn tool_of(&self, call: &CallId) -> &str {
        self.calls.get(call).map_or("", |call| &call.record.tool_name)
    }
}
