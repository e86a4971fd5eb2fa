//! An item's life: how it changes status, and how it settles.

use serde_json::{Value, json};

use super::record::to_value;
use super::state::Replan;
use super::transition::Transition;
use super::view;
use crate::domain::hitl::Decision;
use crate::domain::ids::{CallId, ItemId, SuspensionId};
use crate::domain::model::Phase;
use crate::domain::observation::ObservationType;
use crate::domain::plan::{ItemStatus, ValidationStatus};
use crate::domain::settings::OnItemFailure;
use crate::domain::tool::{CallStatus, ToolError, ToolStatus};

/// The reason of an item whose needed call a person or a policy refused.
pub(super) const REJECTED: &str = "rejected";

const DEPENDENCY_FAILED: &str = "dependency failed";
/// The reason of an item that `onItemFailure: stop` kept from beginning.
const STOPPED: &str = "an item failed";

impl Transition<'_> {
    /// Changes an item's status and records it.
    pub fn set_status(&mut self, id: &ItemId, status: ItemStatus, reason: Option<String>) {
        let Some(from) = self.state.item(id).map(|item| item.track.status) else { return };
        let now = self.stamp.now;
        self.track(id, |track| {
            track.reason = reason;
            track.updated = now;
        });
        self.state.list.set_status(id, status);
        self.record_status(id, from);
    }

    /// Records an item's status as it is now.
    pub fn record_status(&mut self, id: &ItemId, from: ItemStatus) {
        let Some(item) = self.state.item(id) else { return };
        let track = &item.track;
        let mut changed = json!({ "status": track.status, "updatedTimestamp": track.updated });
        let mut body = json!({ "itemId": id, "from": from, "status": track.status, "attempt": track.attempt });
        if let Some(run) = &track.run {
            changed["runId"] = to_value(run);
        }
        if let Some(reason) = &track.reason {
            changed["reason"] = reason.as_str().into();
            body["reason"] = reason.as_str().into();
        }
        if track.status.is_settled() {
            view::settled_fields(self.state, item, &mut changed);
            body["stepOutput"] = to_value(&view::step_output(self.state, item));
        }
        body["item"] = changed;
        let title = format!("{}: {}", super::record::cut(&item.def.description, 80), view::status_word(track.status));
        self.record(ObservationType::ItemStatusChange, Some(id), title, body);
    }

    /// It has its result.
    pub fn complete_item(&mut self, id: &ItemId, result: Value, validation: Option<ValidationStatus>) {
        self.close_loop(id);
        self.track(id, |track| {
            track.result = Some(result);
            track.validation = validation;
        });
        self.set_status(id, ItemStatus::Completed, None);
    }

    /// It ends without a result, and with it whatever depends on it. A failure is never silent.
    pub fn fail_item(&mut self, id: &ItemId, code: &str, message: String) {
        self.close_loop(id);
        self.record_error(Phase::Execution, code, &message, false, Some(id));
        let reason = if code == REJECTED { code.to_owned() } else { format!("{code}: {message}") };
        self.set_status(id, ItemStatus::Failed, Some(reason));
        self.cancel_dependants(id);
        match self.settings().execution.on_item_failure {
            OnItemFailure::Continue => {}
            OnItemFailure::Replan => {
                let note = format!("Item {id} failed ({code}): plan around it if you can.");
                let active = self.active();
                if active.replan == Replan::Unasked {
                    active.replan = Replan::Due;
                    active.notes.push(note);
                }
            }
            OnItemFailure::Stop => {
                self.active().stopped = true;
                self.cancel_pending(STOPPED);
            }
        }
    }

    /// Ends what is still open of its loop: calls that never started are skipped, questions are withdrawn.
    fn close_loop(&mut self, id: &ItemId) {
        let open: Vec<CallId> =
            self.state.item(id).and_then(|item| item.track.work.as_ref()).map_or_else(Vec::new, |work| {
                let is_open = |call: &&CallId| self.state.call_status(call) != Some(CallStatus::Done);
                work.batch.iter().filter(is_open).cloned().collect()
            });
        for call in open {
            self.end_open_call(&call, "the step ended");
        }
        self.track(id, |track| track.work = None);
        self.state.list.touch(id);
    }

    /// A call that will not be carried out any more: skipped if it never started, else unknown.
    pub fn end_open_call(&mut self, id: &CallId, why: &str) {
        if let Some(suspension) = self.suspension_of(id) {
            self.close_suspension(&suspension, Decision::Cancelled, "engine", Some(why.to_owned()));
        }
        if self.state.task_of(id).is_some() {
            let message = format!("{why}; the agent is told to stop");
            return self.end_call(id, ToolStatus::Error, Err(error("cancelled", message)), None, self.task_age(id));
        }
        match self.maybe_started(id) {
            false => self.end_call(id, ToolStatus::Skipped, Err(error("skipped", why)), None, 0),
            true => {
                let message = format!("{why} while it ran; whether it had its effect is not known");
                self.end_call(id, ToolStatus::Error, Err(error("unknown", message)), None, 0);
            }
        }
    }

    /// Whether it was ever started: `Running`, or in doubt after a crash.
    fn maybe_started(&self, id: &CallId) -> bool {
        self.state.calls.get(id).is_some_and(|call| match call.record.status {
            CallStatus::Running | CallStatus::AtPeer => true,
            CallStatus::Parked | CallStatus::Ready => call.record.epoch.is_some(),
            CallStatus::Done => false,
        })
    }

    pub fn suspension_of(&self, call: &CallId) -> Option<SuspensionId> {
        let open = self.state.suspensions.values();
        open.filter(|s| s.call_id.as_ref() == Some(call)).map(|s| s.suspension_id.clone()).next()
    }

    /// Cancels, transitively, the pending items that can never start because this one failed.
    fn cancel_dependants(&mut self, id: &ItemId) {
        let mut todo = vec![id.clone()];
        while let Some(cause) = todo.pop() {
            let pending: Vec<ItemId> = self
                .state
                .list
                .dependants(&cause)
                .filter(|item| item.track.status == ItemStatus::Pending)
                .map(|item| item.def.id.clone())
                .collect();
            for dependant in pending {
                self.cancel_item(&dependant, DEPENDENCY_FAILED.to_owned());
                todo.push(dependant);
            }
        }
    }

    pub fn cancel_pending(&mut self, reason: &str) {
        let pending: Vec<ItemId> = self
            .state
            .list
            .iter()
            .filter(|item| item.track.status == ItemStatus::Pending)
            .map(|item| item.def.id.clone())
            .collect();
        for id in pending {
            self.cancel_item(&id, reason.to_owned());
        }
    }

    /// It counts as settled in the active run.
    pub fn cancel_item(&mut self, id: &ItemId, reason: String) {
        let run = self.run().run_id.clone();
        self.close_loop(id);
        self.track(id, |track| track.run = Some(run));
        self.set_status(id, ItemStatus::Cancelled, Some(reason));
    }

    /// Nothing is open and nothing may begin: whatever is still pending waits for something that will never come. Causes
    /// come first, then what depends on them; what is left depends on itself.
    pub fn cancel_unreachable(&mut self) {
        if self.active().stopped {
            return self.cancel_pending(STOPPED);
        }
        let pending = self.state.list.iter().filter(|item| item.track.status == ItemStatus::Pending);
        let known: Vec<(ItemId, String)> = pending
            .filter_map(|item| Some((item.def.id.clone(), self.why_unreachable(&item.def.dependencies)?)))
            .collect();
        for (id, reason) in &known {
            self.cancel_item(id, reason.clone());
        }
        for (id, _) in &known {
            self.cancel_dependants(id);
        }
        self.cancel_pending("dependency cycle");
    }

    /// `None`: all of them may still be done, as far as this item can see.
    fn why_unreachable(&self, dependencies: &[ItemId]) -> Option<String> {
        dependencies.iter().find_map(|id| match self.state.item(id).map(|item| item.track.status) {
            None => Some(format!("unknown dependency: {id}")),
            Some(ItemStatus::Failed | ItemStatus::Cancelled) => Some(DEPENDENCY_FAILED.to_owned()),
            Some(ItemStatus::Completed | ItemStatus::Pending | ItemStatus::InProgress | ItemStatus::Waiting) => None,
        })
    }
}

pub(super) fn error(code: &str, message: impl Into<String>) -> ToolError {
    ToolError { code: code.into(), message: message.into(), pointer: None, retry_after_ms: None }
}
