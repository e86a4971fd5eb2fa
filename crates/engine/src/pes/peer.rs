//! What agents tell of the tasks that they were given. Only what they say when asked counts: a call back is a reason to
//! ask, and an answer to an action that is no longer under way changes nothing.

use super::item::error;
use super::transition::{Handled, Taken, Transition};
use crate::domain::hitl::{Decision, FeedbackSchema, InputType, SuspensionKind};
use crate::domain::ids::{CallId, TaskId};
use crate::domain::task::{
    PeerFailure, PeerFailureKind, PeerState, Seen, Slot, Task, TaskAction, TaskActionKind, TaskStatus,
};
use crate::domain::tool::{CallStatus, ToolStatus};

/// So often a message is sent to an agent that cannot be reached, or an interrupted sending is looked into.
const MOST_SENDS: u32 = 6;
/// So often an agent is told to stop, if it does not listen.
const MOST_CANCELS: u32 = 6;
/// So often in a row an agent may say that it knows no such task.
const MOST_STRIKES: u32 = 3;

/// What an agent wants to know, and how an answer looks unless it says so itself.
struct PeerQuestion {
    message: Option<String>,
    form: Option<FeedbackSchema>,
    input_type: InputType,
}

impl Transition<'_> {
    pub fn task_seen(&mut self, id: &TaskId, attempt: u32, seen: Seen) -> Handled {
        let Some((task, what)) = self.under_way(id, attempt) else { return Ok(Taken::No) };
        if what == TaskActionKind::Cancel {
            self.cancel_settled(id, true);
            return Ok(Taken::Yes);
        }
        let is_news = task.remote_task_id.is_none() && seen.remote_task_id.is_some();
        self.task(id, |task| {
            task.errand = None;
            task.strikes = 0;
            task.remote_task_id = task.remote_task_id.take().or(seen.remote_task_id);
            task.remote_context_id = seen.remote_context_id.or(task.remote_context_id.take());
            task.message = seen.message.clone();
            if let Some(patience) = seen.patience_ms {
                task.deadline = task.deadline.min(task.created_at.saturating_add(patience));
            }
        });
        let call = task.call_id.clone();
        let ends = |status, code: &str| {
            let why = seen.message.clone().unwrap_or_else(|| format!("{} gave no reason", task.agent_id));
            (status, Err(error(code, why)))
        };
        let (status, result) = match seen.state {
            PeerState::Completed => (TaskStatus::Completed, Ok(seen.output)),
            PeerState::Failed => ends(TaskStatus::Failed, "peer_failed"),
            PeerState::Rejected => ends(TaskStatus::Rejected, "peer_rejected"),
            PeerState::Canceled => ends(TaskStatus::Canceled, "peer_canceled"),
            // What it said before our answer reached it.
            PeerState::InputRequired if what != TaskActionKind::Ask && task.reply.is_some() => {
                self.task_continues(id, TaskStatus::Working, is_news);
                return Ok(Taken::Yes);
            }
            PeerState::Working => {
                self.task_continues(id, TaskStatus::Working, is_news);
                return Ok(Taken::Yes);
            }
            PeerState::InputRequired => {
                self.task_continues(id, TaskStatus::InputRequired, is_news);
                let asked = PeerQuestion { message: seen.message, form: seen.form, input_type: InputType::Text };
                self.ask_for_peer(&task, SuspensionKind::PeerInput, asked);
                return Ok(Taken::Yes);
            }
            PeerState::AuthRequired => {
                self.task_continues(id, TaskStatus::AuthRequired, is_news);
                let asked = PeerQuestion { message: seen.message, form: None, input_type: InputType::Confirm };
                self.ask_for_peer(&task, SuspensionKind::PeerAuth, asked);
                return Ok(Taken::Yes);
            }
        };
        self.task_ended(id, &call, status, result);
        Ok(Taken::Yes)
    }

    /// It is not over: it is asked about again, sooner if something changed.
    fn task_continues(&mut self, id: &TaskId, status: TaskStatus, is_news: bool) {
        let Some((_, task)) = self.state.tasks.get(id) else { return };
        let (call, has_moved) = (task.call_id.clone(), task.status != status);
        if has_moved {
            self.task(id, |task| task.tries = 0);
        }
        self.put_off(id, TaskActionKind::Ask, None);
        if has_moved {
            self.withdraw_question(&call, "the agent went on by itself");
            self.call_at_peer(&call);
        }
        if has_moved || is_news {
            self.set_task_status(id, status);
        }
    }

    /// A person is asked what the agent asked, once.
    fn ask_for_peer(&mut self, task: &Task, kind: SuspensionKind, seen: PeerQuestion) {
        if self.suspension_of(&task.call_id).is_some() {
            return;
        }
        let says = seen.message.unwrap_or_else(|| format!("{} needs more to go on.", task.agent_id));
        let schema = seen.form.unwrap_or_else(|| FeedbackSchema {
            input_type: seen.input_type,
            prompt: says.clone(),
            options: Vec::new(),
            allow_modify_args: false,
            custom_schema: None,
        });
        self.park(&task.call_id, kind, says, schema, None);
    }

    fn task_ended(
        &mut self,
        id: &TaskId,
        call: &CallId,
        status: TaskStatus,
        result: Result<serde_json::Value, crate::domain::tool::ToolError>,
    ) {
        self.withdraw_question(call, "the agent ended the task");
        self.set_task_status(id, status);
        let age = self.task_age(call);
        let status = if result.is_ok() { ToolStatus::Success } else { ToolStatus::Error };
        self.end_call(call, status, result, None, age);
        self.on_call_ended(call);
    }

    /// A question that has become idle, if there is one.
    pub fn withdraw_question(&mut self, call: &CallId, why: &str) {
        if let Some(open) = self.suspension_of(call) {
            self.close_suspension(&open, Decision::Cancelled, "peer", Some(why.to_owned()));
        }
    }

    pub fn peer_failed(&mut self, id: &TaskId, attempt: u32, failure: PeerFailure) -> Handled {
        let Some((task, what)) = self.under_way(id, attempt) else { return Ok(Taken::No) };
        match what {
            TaskActionKind::Send => self.send_failed(&task, failure),
            TaskActionKind::Resend => self.resend_failed(&task, failure),
            TaskActionKind::Ask => self.ask_failed(&task, failure),
            TaskActionKind::Cancel => self.cancel_failed(&task, failure),
        }
        Ok(Taken::Yes)
    }

    fn send_failed(&mut self, task: &Task, failure: PeerFailure) {
        let id = &task.task_id;
        match failure.kind {
            PeerFailureKind::Unreachable if task.tries + 1 < MOST_SENDS => {
                // Of a message that follows others, the agent is at work already.
                self.task(id, |task| task.is_out = task.remote_task_id.is_some());
                self.put_off(id, TaskActionKind::Send, failure.retry_after_ms);
            }
            PeerFailureKind::Unknown => self.look_into(id),
            PeerFailureKind::NotFound if task.remote_task_id.is_some() => self.lost(task),
            PeerFailureKind::Gone => self.ended_without(task, TaskStatus::Failed, "peer_removed", failure.message),
            PeerFailureKind::Unreachable => self.undeliverable(task, "peer_unreachable", failure.message),
            PeerFailureKind::Refused | PeerFailureKind::NotFound => {
                self.undeliverable(task, "peer_refused", failure.message)
            }
        }
    }

    /// It may have gone out: whoever performs it next finds that out.
    pub fn look_into(&mut self, id: &TaskId) {
        let is_known = self.state.tasks.get(id).is_some_and(|(_, task)| task.remote_task_id.is_some());
        let is_first = self.state.tasks.get(id).is_some_and(|(_, task)| task.reply.is_none());
        match is_known && is_first {
            // It told us of the task by itself: so it arrived.
            true => self.ready(id, TaskActionKind::Ask, self.stamp.now),
            false => {
                self.task(id, |task| task.tries += 1);
                self.ready(id, TaskActionKind::Resend, self.stamp.now);
            }
        }
    }

    fn undeliverable(&mut self, task: &Task, code: &str, why: String) {
        let is_known = task.remote_task_id.is_some();
        self.task(&task.task_id, |task| {
            task.errand = None;
            task.is_out = is_known;
            task.reason = Some(why.clone());
        });
        let ended = Err(error(code, why));
        match is_known {
            // The agent still waits for what could not be sent: it is told to stop.
            true => {
                let age = self.task_age(&task.call_id);
                self.end_call(&task.call_id, ToolStatus::Error, ended, None, age);
                self.on_call_ended(&task.call_id);
            }
            false => self.task_ended(&task.task_id, &task.call_id, TaskStatus::Failed, ended),
        }
    }

    fn resend_failed(&mut self, task: &Task, failure: PeerFailure) {
        let is_known = task.remote_task_id.is_some();
        match failure.kind {
            PeerFailureKind::NotFound if is_known => self.lost(task),
            PeerFailureKind::Gone => self.ended_without(task, TaskStatus::Failed, "peer_removed", failure.message),
            PeerFailureKind::Unreachable if task.tries + 1 < MOST_SENDS => {
                self.put_off(&task.task_id, TaskActionKind::Resend, failure.retry_after_ms);
            }
            PeerFailureKind::Unreachable
            | PeerFailureKind::Unknown
            | PeerFailureKind::Refused
            | PeerFailureKind::NotFound => self.in_doubt(&task.task_id, &failure.message),
        }
    }

    /// Nobody can tell whether our message arrived: a person decides. If the agent calls back, it did.
    pub fn in_doubt(&mut self, id: &TaskId, why: &str) {
        let Some(call) = self.task(id, |task| {
            task.errand = None;
            task.call_id.clone()
        }) else {
            return;
        };
        self.set_task_status(id, TaskStatus::InDoubt);
        self.park_in_doubt(&call, &format!("Whether the agent got the task is not known: {why}"));
    }

    fn ask_failed(&mut self, task: &Task, failure: PeerFailure) {
        if failure.kind == PeerFailureKind::Gone {
            return self.ended_without(task, TaskStatus::Failed, "peer_removed", failure.message);
        }
        let is_unknown_there = failure.kind == PeerFailureKind::NotFound;
        let strikes = self.task(&task.task_id, |task| {
            task.strikes = if is_unknown_there { task.strikes + 1 } else { task.strikes };
            task.strikes
        });
        if is_unknown_there && strikes >= Some(MOST_STRIKES) {
            return self.lost(task);
        }
        self.put_off(&task.task_id, TaskActionKind::Ask, failure.retry_after_ms);
    }

    fn lost(&mut self, task: &Task) {
        let why = format!("{} no longer knows the task", task.agent_id);
        self.ended_without(task, TaskStatus::Lost, "peer_lost", why);
    }

    /// Nobody is left who could say more about it.
    fn ended_without(&mut self, task: &Task, status: TaskStatus, code: &str, why: String) {
        self.task(&task.task_id, |task| {
            task.errand = None;
            task.reason = Some(why.clone());
        });
        self.task_ended(&task.task_id, &task.call_id, status, Err(error(code, why)));
    }

    fn cancel_failed(&mut self, task: &Task, failure: PeerFailure) {
        let is_known = task.remote_task_id.is_some();
        match failure.kind {
            // Nothing of it is left to stop; one that we cannot name may yet call back.
            PeerFailureKind::NotFound if is_known => self.cancel_settled(&task.task_id, true),
            PeerFailureKind::Refused if is_known => self.cancel_settled(&task.task_id, false),
            PeerFailureKind::Gone => self.cancel_settled(&task.task_id, false),
            PeerFailureKind::Unreachable
            | PeerFailureKind::Unknown
            | PeerFailureKind::Refused
            | PeerFailureKind::NotFound => match task.tries + 1 < MOST_CANCELS {
                true => self.put_off(&task.task_id, TaskActionKind::Cancel, failure.retry_after_ms),
                false => self.cancel_settled(&task.task_id, false),
            },
        }
    }

    fn cancel_settled(&mut self, id: &TaskId, is_heard: bool) {
        self.task(id, |task| {
            task.errand = None;
            task.cancel_heard = Some(is_heard);
        });
    }

    /// The action that this attempt answers, if it is still under way.
    fn under_way(&self, id: &TaskId, attempt: u32) -> Option<(Task, TaskActionKind)> {
        let (_, task) = self.state.tasks.get(id)?;
        match task.errand? {
            TaskAction { what, slot: Slot::Running { .. } } if task.attempt == attempt => Some((task.clone(), what)),
            TaskAction { .. } => None,
        }
    }

    /// Somebody who knows the task's secret says that something happened: the agent is asked. The first one to name the
    /// agent's own id of a task that we do not know yet is believed: the answer is what counts.
    pub fn peer_called_back(&mut self, id: &TaskId, remote: Option<String>) -> Handled {
        let Some((_, task)) = self.state.tasks.get(id) else { return Ok(Taken::No) };
        if task.remote_task_id.is_some() && remote.is_some() && task.remote_task_id != remote {
            return Ok(Taken::No);
        }
        let names_it = task.remote_task_id.is_none() && remote.is_some();
        let (task, now) = (task.clone(), self.stamp.now);
        let next = match task.errand {
            Some(TaskAction { what, slot: Slot::Running { .. } }) => {
                if task.called && !names_it {
                    return Ok(Taken::No);
                }
                self.task(id, |task| task.called = true);
                Some((what, None))
            }
            Some(TaskAction { what: TaskActionKind::Ask, slot: Slot::Ready { at } }) if at <= now => {
                return Ok(Taken::No);
            }
            Some(TaskAction { what: TaskActionKind::Ask, slot: Slot::Ready { .. } }) => {
                Some((TaskActionKind::Ask, Some(now)))
            }
            Some(TaskAction { what: TaskActionKind::Cancel, slot: Slot::Ready { .. } }) if names_it => {
                Some((TaskActionKind::Cancel, Some(now)))
            }
            Some(TaskAction { what: TaskActionKind::Send | TaskActionKind::Resend, slot: Slot::Ready { .. } })
            | None
                if names_it && !task.status.is_terminal() =>
            {
                Some((TaskActionKind::Ask, Some(now)))
            }
            Some(TaskAction { slot: Slot::Ready { .. }, .. }) | None => return Ok(Taken::No),
        };
        self.task(id, |task| {
            task.remote_task_id = task.remote_task_id.take().or(remote);
            task.tries = 0;
        });
        if let Some((what, Some(at))) = next {
            self.ready(id, what, at);
        }
        if task.status == TaskStatus::InDoubt {
            self.withdraw_question(&task.call_id, "the agent called back");
            self.call_at_peer(&task.call_id);
            self.set_task_status(id, TaskStatus::Working);
        } else if names_it && !task.status.is_terminal() {
            self.record_task(id);
        }
        Ok(Taken::Yes)
    }

    /// After a crash: asking and cancelling are done again; a sending that may have taken place is looked into.
    pub fn recover_tasks(&mut self) -> bool {
        let holder = self.stamp.holder;
        let lost: Vec<(TaskId, TaskActionKind, u32)> = self
            .state
            .tasks
            .values()
            .filter_map(|(_, task)| match task.errand? {
                TaskAction { what, slot: Slot::Running { epoch, .. } } if Some(epoch) != holder => {
                    Some((task.task_id.clone(), what, task.tries))
                }
                TaskAction { .. } => None,
            })
            .collect();
        for (id, what, tries) in &lost {
            match what {
                TaskActionKind::Send | TaskActionKind::Resend if *tries < MOST_SENDS => self.look_into(id),
                TaskActionKind::Send | TaskActionKind::Resend => {
                    self.in_doubt(id, "the process stopped again and again")
                }
                TaskActionKind::Ask | TaskActionKind::Cancel => self.ready(id, *what, self.stamp.now),
            }
        }
        !lost.is_empty()
    }
}

impl super::state::State {
    /// The task that a call became, while something is left to do about it.
    pub(super) fn task_of(&self, call: &CallId) -> Option<&Task> {
        let delegation = self.calls.get(call)?.record.delegation.as_ref()?;
        self.tasks.get(&delegation.task_id).map(|(_, task)| task)
    }

    /// Where the sending of a call to an agent stands, if that is what it is at.
    pub(super) fn sending(&self, call: &CallId) -> Option<Slot> {
        let is_there = self.call_status(call) == Some(CallStatus::AtPeer);
        self.task_of(call).filter(|_| is_there)?.sending()
    }
}
