//! After a crash: only slots that were `Running` under an older epoch are touched. A model call is made again as a new
//! attempt; a tool call that may have been sent is repeated only if its tool declared that this is safe.

use super::state::{ModelCall, ModelSlot};
use super::transition::{Handled, Taken, Transition};
use crate::domain::ids::{CallId, ItemId};
use crate::domain::tool::CallStatus;

/// After so many attempts that were lost a person is asked, even if it is safe to go on.
const MOST_ATTEMPTS: u32 = 10;

impl Transition<'_> {
    pub fn recover(&mut self) -> Handled {
        self.is_progress = false;
        let has_tasks = self.recover_tasks();
        if self.state.run.is_none() {
            return Ok(if has_tasks { Taken::Yes } else { Taken::No });
        }
        let cancelled = self.active().cancel.is_some();
        if cancelled {
            self.complete_cancel();
            return Ok(Taken::Yes);
        }
        if let Some(call) = self.active().model.clone().filter(|call| self.is_lost(call)) {
            self.model_interrupted(None, call);
        }
        let open: Vec<ItemId> = self.state.list.open().map(|item| item.def.id.clone()).collect();
        for item in &open {
            self.recover_item(item);
        }
        Ok(Taken::Yes)
    }

    fn recover_item(&mut self, id: &ItemId) {
        let Some(work) = self.state.item(id).and_then(|item| item.track.work.clone()) else { return };
        if let Some(call) = work.model.filter(|call| self.is_lost(call)) {
            self.model_interrupted(Some(id), call);
        }
        for call in work.batch {
            self.recover_call(&call);
        }
    }

    fn recover_call(&mut self, id: &CallId) {
        let epoch = self.stamp.holder;
        let Some(record) = self.state.calls.get(id).map(|call| &call.record) else { return };
        if record.status != CallStatus::Running || record.epoch == epoch {
            return;
        }
        self.call_lost(id, "The process stopped during the call.");
    }

    /// A call that may have been sent, and whose end nobody will hear of.
    pub fn call_lost(&mut self, id: &CallId, why: &str) {
        let Some(record) = self.state.calls.get(id).map(|call| &call.record) else { return };
        if record.idempotent && record.attempt < MOST_ATTEMPTS {
            self.forget_question(id, "the call was interrupted");
            self.unpark(id, None);
            self.call(id, |call| call.record.attempt += 1);
        } else {
            self.put_in_doubt(id, why);
        }
    }

    /// A person decides what is to become of it.
    pub fn put_in_doubt(&mut self, id: &CallId, why: &str) {
        self.forget_question(id, "the call was interrupted");
        self.park_in_doubt(id, why);
    }

    fn is_lost(&self, call: &ModelCall) -> bool {
        match &call.slot {
            ModelSlot::Ready { .. } => false,
            ModelSlot::Running { epoch, .. } => Some(*epoch) != self.stamp.holder,
        }
    }
}
