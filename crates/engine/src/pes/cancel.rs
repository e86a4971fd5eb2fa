//! Ending a run from outside: cancel, interrupt, quarantine. What runs is stopped first; what never started is skipped.

use serde::{Deserialize, Serialize};

use super::reply::interrupted;
use super::state::{Cancel, ModelSlot};
use super::transition::{Handled, Taken, Transition};
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{Decision, SuspensionKind};
use crate::domain::ids::{CallId, ItemId, RunId, SuspensionId};
use crate::domain::model::{self, FailureKind};
use crate::domain::run::{RunError, RunStatus};
use crate::domain::tool::CallStatus;
use crate::step::{Keep, Row};

/// What a run ends as that ends before its plan is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Ends {
    /// Somebody asked for that.
    #[default]
    Cancelled,
    /// Its budget is spent.
    OnBudget,
    /// A person rejected its plan.
    Rejected,
    /// Nobody reviewed its plan in time.
    TimedOut,
}

impl Ends {
    pub fn is_cancelled(&self) -> bool {
        *self == Ends::Cancelled
    }
}

impl Transition<'_> {
    /// The first phase: from here on nothing starts. Without `Running` slots the second follows at once.
    pub fn cancel(&mut self, run: Option<RunId>, by: &str) -> Handled {
        let is_active =
            self.state.run.as_ref().is_some_and(|active| run.as_ref().is_none_or(|id| active.run_id == *id));
        match &run {
            Some(id) if self.state.queued.contains_key(id) => self.end_queued(id, RunStatus::Cancelled, None),
            Some(_) if !is_active => {
                return Err(Fault::new(Code::RunFinished, "The run is over; there is nothing to cancel."));
            }
            Some(_) => {}
            None => {
                for id in self.state.head.queue.clone() {
                    self.end_queued(&id, RunStatus::Cancelled, None);
                }
            }
        }
        if is_active {
            self.mark_cancelled(by, "the run was cancelled");
        }
        Ok(Taken::Yes)
    }

    /// Another request takes the thread: it stands first in the queue already.
    pub fn interrupt(&mut self) {
        self.mark_cancelled("interrupt", "another request interrupted the run");
    }

    fn mark_cancelled(&mut self, by: &str, reason: &str) {
        let active = self.active();
        if active.cancel.as_ref().is_none_or(|cancel| cancel.ends != Ends::Cancelled) {
            active.cancel = Some(Cancel { by: by.to_owned(), reason: reason.to_owned(), ends: Ends::Cancelled });
            self.run_changed();
        }
    }

    /// The second phase, once nothing is `Running`, or the holder has stopped it.
    pub fn complete_cancel(&mut self) {
        let Some(cancel) = self.active().cancel.clone() else { return };
        self.end_as(cancel.ends, &cancel.reason);
    }

    /// The run ends by itself; what runs of it is stopped first, by whoever holds it.
    pub fn end_early(&mut self, ends: Ends, why: &str) {
        if !self.state.is_any_running() {
            return self.end_as(ends, why);
        }
        self.active().cancel = Some(Cancel { by: "engine".into(), reason: why.into(), ends });
        self.run_changed();
    }

    fn end_as(&mut self, ends: Ends, why: &str) {
        match ends {
            Ends::Cancelled => {
                self.stop_everything(why);
                self.end_run(RunStatus::Cancelled, None);
            }
            Ends::OnBudget => self.end_on_budget(why),
            Ends::Rejected => self.end_rejected(why),
            Ends::TimedOut => self.fail_unreviewed(why),
        }
    }

    pub fn effects_stopped(&mut self) -> Handled {
        let is_cancelled = self.state.head.active.as_ref().is_some_and(|active| active.cancel.is_some());
        if !is_cancelled {
            return Ok(Taken::No);
        }
        self.complete_cancel();
        Ok(Taken::Yes)
    }

    /// The thread crashed again and again: its current and queued runs fail, and it takes no others until it is released.
    pub fn quarantine(&mut self, crashes: u32) -> Handled {
        if self.state.run.is_none() && self.state.head.queue.is_empty() {
            return Ok(Taken::No);
        }
        let message = format!("The thread crashed {crashes} times without progress and was stopped.");
        self.set_aside(Code::Quarantined, message);
        Ok(Taken::Yes)
    }

    /// Rows cannot be read: the runs fail by that name, and the rows are not loaded any more, so that the thread can be
    /// used again. They stay as they are, for whoever wants to know what they held.
    pub fn set_unreadable_aside(&mut self) -> Handled {
        let rows = std::mem::take(&mut self.state.unreadable);
        if rows.is_empty() {
            return Ok(Taken::No);
        }
        let named: Vec<String> = rows.iter().map(|row| format!("{:?} {}", row.kind, row.id)).collect();
        self.rows.extend(rows.into_iter().map(|row| Row { keep: Keep::Never, ..row }));
        let message = format!("What is stored of this thread cannot be read any more: {}.", named.join(", "));
        self.set_aside(Code::UnreadableState, message);
        Ok(Taken::Yes)
    }

    fn set_aside(&mut self, code: Code, message: String) {
        let error = RunError { code, message: message.clone(), phase: model::Phase::Execution };
        for id in self.state.head.queue.clone() {
            self.end_queued(&id, RunStatus::Failed, Some(error.clone()));
        }
        if self.state.run.is_some() {
            self.stop_everything("the thread was quarantined");
            self.fail_run(code, message, model::Phase::Execution);
        }
        self.state.head.quarantined = true;
        self.is_progress = false;
    }

    pub fn release(&mut self) -> Handled {
        let was_quarantined = std::mem::take(&mut self.state.head.quarantined);
        Ok(if was_quarantined { Taken::Yes } else { Taken::No })
    }

    /// Closes every slot, question and item of the active run. A pause stays open until the run has ended.
    pub fn stop_everything(&mut self, reason: &str) {
        self.stop_model(None);
        let open: Vec<ItemId> = self.state.list.open().map(|item| item.def.id.clone()).collect();
        for id in &open {
            self.stop_model(Some(id));
            for call in self.open_calls(id) {
                self.end_open_call(&call, reason);
            }
            self.cancel_item(id, reason.to_owned());
        }
        let questions = self.state.suspensions.values().filter(|open| open.kind != SuspensionKind::Pause);
        for id in questions.map(|open| open.suspension_id.clone()).collect::<Vec<SuspensionId>>() {
            self.close_suspension(&id, Decision::Cancelled, "engine", Some(reason.to_owned()));
        }
        self.cancel_pending(reason);
    }

    fn open_calls(&self, item: &ItemId) -> Vec<CallId> {
        let work = self.state.item(item).and_then(|item| item.track.work.as_ref());
        let batch = work.map(|work| work.batch.clone()).unwrap_or_default();
        batch.into_iter().filter(|call| self.state.call_status(call) != Some(CallStatus::Done)).collect()
    }

    fn stop_model(&mut self, item: Option<&ItemId>) {
        let call = match item {
            Some(item) => self.work(item, |work| work.model.take()).flatten(),
            None => self.active().model.take(),
        };
        if let Some(ModelSlot::Running { stream, .. }) = call.map(|call| call.slot) {
            let failure = model::ModelFailure { kind: FailureKind::Interrupted, ..interrupted("the run was stopped") };
            self.record_stream_error(&stream, item, &failure, None);
        }
    }
}
