//! Slots begin to run here, and nowhere else: only for the holder, only when due, never while a pause or a cancel holds
//! them back. A call that needs no effect is answered instead, when its turn comes.

use super::budget::Funds;
use super::state::{ItemLoop, ModelCall, ModelSlot, Phase};
use super::transition::Transition;
use crate::domain::Millis;
use crate::domain::ids::{CallId, ItemId};
use crate::domain::model;
use crate::domain::payload;
use crate::domain::task::Slot;
use crate::domain::tool::{CallRecord, CallStatus, ToolOutcome};

impl Transition<'_> {
    /// Whether anything new may begin: an item, a phase, a slot.
    pub fn may_begin(&self) -> bool {
        self.state.head.active.as_ref().is_some_and(|active| active.cancel.is_none() && !active.is_held())
    }

    /// Starts the planner's or the synthesizer's call if it is due.
    pub fn start_main(&mut self) {
        let phase = match self.state.phase() {
            Phase::Synthesizing => model::Phase::Synthesis,
            Phase::Idle | Phase::Planning | Phase::Refining | Phase::Executing => model::Phase::Planning,
        };
        let Some(mut call) = self.active().model.clone() else { return };
        if self.start_model(&mut call, None, phase) {
            self.active().model = Some(call);
        }
    }

    /// Starts whatever of this item may start: its model call, or what is next of its batch. `true`: a call was answered
    /// at once, so more may begin.
    pub fn start_item(&mut self, id: &ItemId) -> bool {
        let Some(work) = self.state.item(id).and_then(|item| item.track.work.as_ref()) else { return false };
        if let Some(mut call) = work.model.clone() {
            if self.start_model(&mut call, Some(id), model::Phase::Execution) {
                self.work(id, |work| work.model = Some(call));
            }
            return false;
        }
        let (batch, is_together) = (work.batch.clone(), work.is_together);
        let (mut is_answered, mut is_turn_taken) = (false, false);
        for call in &batch {
            match self.state.call_status(call) {
                // One that is made again later keeps its turn until then.
                Some(CallStatus::Ready) if !self.is_due(self.retries_at(call)) => is_turn_taken = true,
                Some(CallStatus::Ready)
                    if is_together || !(is_turn_taken || self.is_any_of(&batch, CallStatus::Running)) =>
                {
                    is_answered |= self.start_call(call);
                }
                Some(CallStatus::AtPeer) => self.start_sending(call),
                Some(CallStatus::Ready | CallStatus::Running | CallStatus::Parked | CallStatus::Done) | None => {}
            }
        }
        is_answered
    }

    fn retries_at(&self, call: &CallId) -> Option<Millis> {
        self.state.calls.get(call)?.record.retrying.as_ref().map(|retrying| retrying.not_before)
    }

    /// When the next call of a batch that is `Ready` may start; `None`: what runs wakes it, or none is.
    fn wakes_batch(&self, work: &ItemLoop) -> Option<Millis> {
        if !work.is_together && self.state.batch_has(work, CallStatus::Running) {
            return None;
        }
        let ready = work.batch.iter().filter(|call| self.state.call_status(call) == Some(CallStatus::Ready));
        let mut due = ready.map(|call| self.retries_at(call).unwrap_or(self.stamp.now));
        if work.is_together { due.min() } else { due.next() }
    }

    fn is_any_of(&self, calls: &[CallId], status: CallStatus) -> bool {
        calls.iter().any(|call| self.state.call_status(call) == Some(status))
    }

    fn start_sending(&mut self, call: &CallId) {
        let task = self.state.task_of(call).filter(|task| task.sending().is_some());
        if let Some(id) = task.map(|task| task.task_id.clone()).filter(|_| self.may_begin()) {
            self.start_errand(&id);
        }
    }

    /// `true`: the call changed.
    fn start_model(&mut self, call: &mut ModelCall, item: Option<&ItemId>, phase: model::Phase) -> bool {
        let (Some(epoch), ModelSlot::Ready { not_before }) = (self.stamp.holder, &call.slot) else { return false };
        if !self.is_due(*not_before) || !self.may_begin() {
            return false;
        }
        let Funds::Enough(reserved) = self.funds(call) else { return false };
        let stream = self.mint.stream();
        call.shown = self.state.head.plan_version;
        call.reserved = reserved;
        call.slot = ModelSlot::Running { epoch, stream: stream.clone() };
        self.record_stream_start(&stream, item, phase, call);
        true
    }

    /// `true`: it is answered already.
    fn start_call(&mut self, id: &CallId) -> bool {
        let Some(epoch) = self.stamp.holder else { return false };
        if !self.may_begin() {
            return false;
        }
        if let Some(outcome) = self.at_once(id) {
            self.call(id, |call| call.record.epoch = Some(epoch));
            self.end_with(id, outcome);
            self.on_call_ended(id);
            return true;
        }
        if let Some(delegation) = self.state.calls.get(id).and_then(|call| call.record.delegation.clone()) {
            self.hand_over(id, delegation, epoch);
            return false;
        }
        let now = self.stamp.now;
        self.call(id, |call| {
            call.record.status = CallStatus::Running;
            call.record.epoch = Some(epoch);
            call.record.updated_at = now;
        });
        false
    }

    /// What needs no effect. What a person approved is compared with what runs where effects are performed, and large
    /// arguments are read there.
    fn at_once(&self, id: &CallId) -> Option<ToolOutcome> {
        let CallRecord { tool_name, arguments, digest, .. } = &self.state.calls.get(id)?.record;
        if digest.is_some() || payload::reference(arguments).is_some() {
            return None;
        }
        self.world.tools.at_once(tool_name, arguments, self.stamp.now, self.world.limits)
    }

    fn is_due(&self, not_before: Option<Millis>) -> bool {
        not_before.is_none_or(|at| at <= self.stamp.now)
    }

    /// When the thread must be looked at again. What is `Ready` and could start waits for the holder: now. What waits
    /// for its turn, a place or the end of a pause is woken by that.
    pub fn wake_at(&self) -> Option<Millis> {
        let expiry = self.state.suspensions.values().filter_map(|open| open.expires_at);
        let tasks = self.state.tasks.values().filter_map(|(_, task)| self.wakes_task(task));
        let active = self.state.head.active.as_ref();
        if active.is_some_and(|active| active.cancel.is_some()) {
            return Some(self.stamp.now);
        }
        let held = self.state.head.active.as_ref().is_none_or(|active| active.is_held());
        let main = active.and_then(|active| active.model.as_ref()).and_then(|call| self.wakes_model(call));
        let works = self.state.works().filter(|work| work.placed).filter_map(|work| match &work.model {
            Some(call) => self.wakes_model(call),
            None => {
                let sends = work.batch.iter().filter_map(|call| match self.state.sending(call)? {
                    Slot::Ready { at } => Some(at),
                    Slot::Running { .. } => None,
                });
                sends.chain(self.wakes_batch(work)).min()
            }
        });
        let slots = main.into_iter().chain(works).filter(|_| !held);
        let replies = self.untold().map(|_| self.stamp.now);
        expiry.chain(tasks).chain(slots).chain(replies).chain(self.deadline()).min()
    }

    fn wakes_model(&self, call: &ModelCall) -> Option<Millis> {
        match &call.slot {
            ModelSlot::Running { .. } => None,
            // What runs now wakes it when it ends.
            ModelSlot::Ready { .. } if self.funds(call) == Funds::Wait => None,
            ModelSlot::Ready { not_before } => Some(not_before.unwrap_or(self.stamp.now)),
        }
    }
}
