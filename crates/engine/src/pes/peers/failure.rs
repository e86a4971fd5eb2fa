//! Actions of tasks that failed: tried again, looked into, put in doubt, or the end of the call.

use crate::domain::ids::TaskId;
use crate::domain::task::{ActionSlot, PeerFailure, PeerFailureKind, Task, TaskAction, TaskActionKind, TaskStatus};
use crate::domain::tool::{CallCode, ToolError};
use crate::pes::peers::{TaskOutcome, cancel, count_reply, end_task, send, under_way};
use crate::pes::people::suspend;
use crate::pes::settle::call::{self, CallEnd};
use crate::pes::settle::task;
use crate::pes::tx::Tx;

/// How often a message is sent to an agent that cannot be reached, or an interrupted send is checked.
const MAX_SENDS: u32 = 6;
/// After this many replies that the agent knows no such task, the task counts as lost.
const MAX_NEGATIVE_REPLIES: u32 = 3;
/// After this many replies that cannot be read, the call of the task ends.
const MAX_UNREADABLE_REPLIES: u32 = 3;
/// How much of the reason for which an agent refused an answer is kept.
const MAX_REFUSAL_CHARS: usize = 1_000;

/// An action of a task failed.
pub(crate) fn on_action_failed(tx: &mut Tx<'_>, id: &TaskId, attempt: u32, failure: PeerFailure) -> TaskOutcome {
    let Some((task, what)) = under_way(tx.state, id, attempt) else { return TaskOutcome::Unchanged };
    match what {
        TaskActionKind::Send => send_failed(tx, &task, failure),
        TaskActionKind::Resend => resend_failed(tx, &task, failure),
        TaskActionKind::Ask => ask_failed(tx, &task, failure),
        TaskActionKind::Cancel => {
            cancel::failed(tx, &task, failure);
            TaskOutcome::Continues
        }
    }
}

fn send_failed(tx: &mut Tx<'_>, task: &Task, failure: PeerFailure) -> TaskOutcome {
    let id = &task.task_id;
    match failure.kind {
        PeerFailureKind::Unreachable if has_arrived(task) => ask_at_once(tx, task),
        PeerFailureKind::Unsupported if is_answer_to_task(task) => ask_at_once(tx, task),
        PeerFailureKind::Refused if is_auth_answer(task) => ask_at_once(tx, task),
        PeerFailureKind::Refused if is_answer_to_task(task) => {
            let why = failure.message.chars().take(MAX_REFUSAL_CHARS).collect();
            tx.change_task(id, |task| task.refusal = Some(why));
            ask_at_once(tx, task)
        }
        PeerFailureKind::Unreachable if task.tries + 1 < MAX_SENDS => {
            tx.change_task(id, |task| task.may_have_arrived = may_be_working(task));
            send::schedule_action(tx, id, TaskActionKind::Send, failure.retry_after_ms);
            TaskOutcome::Continues
        }
        PeerFailureKind::Unknown | PeerFailureKind::Unreadable => {
            tx.change_task(id, |task| task.reason = Some(failure.message));
            check_delivery(tx, id);
            TaskOutcome::Continues
        }
        PeerFailureKind::TooLarge if task.remote_task_id.is_some() => ask_at_once(tx, task),
        PeerFailureKind::TooLarge => end_unreadable(tx, task, failure.message),
        PeerFailureKind::NotFound if task.remote_task_id.is_some() => end_lost(tx, task),
        PeerFailureKind::Gone => {
            end_without_report(tx, task, TaskStatus::Failed, CallCode::PeerRemoved, failure.message)
        }
        PeerFailureKind::Unreachable => {
            end_undeliverable(tx, task, ToolError::new(CallCode::PeerUnreachable, failure.message))
        }
        PeerFailureKind::Denied | PeerFailureKind::NotApproved if may_be_working(task) => {
            put_in_doubt(tx, id, &failure.message);
            TaskOutcome::Continues
        }
        PeerFailureKind::Denied => {
            let denied = ToolError::new(CallCode::Denied, failure.message);
            end_undeliverable(tx, task, ToolError { ruling: failure.ruling, ..denied })
        }
        PeerFailureKind::NotApproved => {
            end_undeliverable(tx, task, ToolError::new(CallCode::ApprovalMismatch, failure.message))
        }
        PeerFailureKind::Refused | PeerFailureKind::Unsupported | PeerFailureKind::NotFound => {
            end_undeliverable(tx, task, ToolError::new(CallCode::PeerRefused, failure.message))
        }
    }
}

/// Whether the agent may be working on the task though our last message did not arrive: it has named the task, or an
/// earlier message may have arrived.
fn may_be_working(task: &Task) -> bool {
    task.remote_task_id.is_some() || task.earlier_may_have_arrived
}

/// Whether the agent has the message that begins the task: it reported the task by itself.
fn has_arrived(task: &Task) -> bool {
    task.remote_task_id.is_some() && task.reply.is_none()
}

/// Whether our message is a person's answer to what the agent asked. If the agent asks nothing any more, because somebody
/// else answered it, the answer is void and the task goes on. If it refuses the answer and still waits, a person is asked
/// again with its reason.
fn is_answer_to_task(task: &Task) -> bool {
    task.remote_task_id.is_some() && task.reply.is_some()
}

/// Whether our message only tells the agent that it was authorised. One that takes no message may notice that by itself.
fn is_auth_answer(task: &Task) -> bool {
    task.auth_answer.as_ref().is_some_and(|answer| answer.is_sent)
}

/// Asks the agent for the task alone. Its answer to a message may contain the history of the task too, and be larger.
fn ask_at_once(tx: &mut Tx<'_>, task: &Task) -> TaskOutcome {
    tx.put_action(&task.task_id, TaskActionKind::Ask, tx.stamp.now);
    TaskOutcome::Continues
}

/// The message may have been sent: the next action finds out.
fn check_delivery(tx: &mut Tx<'_>, id: &TaskId) {
    tx.change_task(id, |task| task.earlier_may_have_arrived = true);
    if tx.state.tasks.get(id).is_some_and(|(_, task)| has_arrived(task)) {
        tx.put_action(id, TaskActionKind::Ask, tx.stamp.now)
    } else {
        tx.change_task(id, |task| task.tries += 1);
        tx.put_action(id, TaskActionKind::Resend, tx.stamp.now);
    }
}

/// The message cannot be sent. If an earlier one may have arrived, the outcome of the call is unknown.
fn end_undeliverable(tx: &mut Tx<'_>, task: &Task, error: ToolError) -> TaskOutcome {
    let may_be_working = may_be_working(task);
    tx.change_task(&task.task_id, |task| {
        task.action = None;
        task.may_have_arrived = may_be_working;
        task.reason = Some(error.message.clone());
    });
    let error = if task.earlier_may_have_arrived {
        let why = error.message.trim_end_matches('.');
        ToolError::new(CallCode::Unknown, format!("{why}; {} may have received it earlier", task.agent_id))
    } else {
        error
    };
    if may_be_working {
        // The agent is sent a cancel: it may wait for the message that could not be sent, or work on an earlier one.
        call::mark_lost(tx, &task.call_id, &error.message);
        let age = task::age(tx, &task.call_id);
        call::end(tx, &task.call_id, CallEnd::error(error).after(age));
        TaskOutcome::CallEnded(task.call_id.clone())
    } else {
        end_task(tx, &task.task_id, &task.call_id, TaskStatus::Failed, Err(error))
    }
}

fn resend_failed(tx: &mut Tx<'_>, task: &Task, failure: PeerFailure) -> TaskOutcome {
    let is_known = task.remote_task_id.is_some();
    match failure.kind {
        PeerFailureKind::TooLarge if is_known => ask_at_once(tx, task),
        PeerFailureKind::TooLarge => end_unreadable(tx, task, failure.message),
        PeerFailureKind::NotFound if is_known => end_lost(tx, task),
        PeerFailureKind::Gone => {
            end_without_report(tx, task, TaskStatus::Failed, CallCode::PeerRemoved, failure.message)
        }
        PeerFailureKind::Unreachable if task.tries + 1 < MAX_SENDS => {
            send::schedule_action(tx, &task.task_id, TaskActionKind::Resend, failure.retry_after_ms);
            TaskOutcome::Continues
        }
        PeerFailureKind::Unsupported if is_answer_to_task(task) => ask_at_once(tx, task),
        PeerFailureKind::Refused if is_auth_answer(task) => ask_at_once(tx, task),
        PeerFailureKind::Unreachable
        | PeerFailureKind::Unknown
        | PeerFailureKind::Unreadable
        | PeerFailureKind::Refused
        | PeerFailureKind::Denied
        | PeerFailureKind::NotApproved
        | PeerFailureKind::Unsupported
        | PeerFailureKind::NotFound => {
            put_in_doubt(tx, &task.task_id, &failure.message);
            TaskOutcome::Continues
        }
    }
}

/// It is not known whether our message arrived: a person decides, unless the agent reports more. If a callback names a
/// task id that we did not know, the message has arrived. If we know the id already (the message was to be an answer),
/// the agent is asked meanwhile.
fn put_in_doubt(tx: &mut Tx<'_>, id: &TaskId, why: &str) {
    let Some((call, is_known, first)) = tx.change_task(id, |task| {
        task.action = None;
        task.earlier_may_have_arrived = true;
        (task.call_id.clone(), task.remote_task_id.is_some(), task.reason.clone())
    }) else {
        return;
    };
    let why = match first {
        Some(first) if first != why => format!("{}; {why}", first.trim_end_matches('.')),
        Some(_) | None => why.to_owned(),
    };
    task::set_status(tx, id, TaskStatus::InDoubt);
    suspend::park_in_doubt(tx, &call, &format!("Whether the agent got the task is not known: {why}"));
    if is_known {
        send::schedule_action(tx, id, TaskActionKind::Ask, None);
    }
}

fn ask_failed(tx: &mut Tx<'_>, task: &Task, failure: PeerFailure) -> TaskOutcome {
    match failure.kind {
        PeerFailureKind::Gone => {
            return end_without_report(tx, task, TaskStatus::Failed, CallCode::PeerRemoved, failure.message);
        }
        PeerFailureKind::TooLarge => return end_unreadable(tx, task, failure.message),
        PeerFailureKind::NotFound => {
            if count_reply(tx, &task.task_id, |task| &mut task.negative_replies) >= MAX_NEGATIVE_REPLIES {
                return end_lost(tx, task);
            }
        }
        PeerFailureKind::Unreadable => {
            if count_reply(tx, &task.task_id, |task| &mut task.unreadable_replies) >= MAX_UNREADABLE_REPLIES {
                return end_unreadable(tx, task, failure.message);
            }
        }
        PeerFailureKind::Refused | PeerFailureKind::Unsupported => {
            // It refused our answer before, and does not say whether it still waits: there is nothing to ask a person.
            if task.status == TaskStatus::Sending
                && let Some(why) = task.refusal.clone()
            {
                return end_undeliverable(tx, task, ToolError::new(CallCode::PeerRefused, why));
            }
        }
        PeerFailureKind::Unreachable
        | PeerFailureKind::Unknown
        | PeerFailureKind::Denied
        | PeerFailureKind::NotApproved => {}
    }
    send::schedule_action(tx, &task.task_id, TaskActionKind::Ask, failure.retry_after_ms);
    TaskOutcome::Continues
}

/// What the agent says of the task cannot be read. The agent may have done it, and is sent a cancel, because it may still be
/// working.
fn end_unreadable(tx: &mut Tx<'_>, task: &Task, why: String) -> TaskOutcome {
    call::mark_lost(tx, &task.call_id, &why);
    send::give_up(tx, &task.call_id, CallCode::PeerFailed, why)
}

fn end_lost(tx: &mut Tx<'_>, task: &Task) -> TaskOutcome {
    let why = format!("{} no longer knows the task", task.agent_id);
    end_without_report(tx, task, TaskStatus::Lost, CallCode::PeerLost, why)
}

/// Ends the task without a report of the agent, which cannot be asked any more.
fn end_without_report(tx: &mut Tx<'_>, task: &Task, status: TaskStatus, code: CallCode, why: String) -> TaskOutcome {
    tx.change_task(&task.task_id, |task| {
        task.action = None;
        task.reason = Some(why.clone());
    });
    end_task(tx, &task.task_id, &task.call_id, status, Err(ToolError::new(code, why)))
}

/// After a crash: asking and cancelling are done again; a send that may have happened is checked.
pub(crate) fn recover(tx: &mut Tx<'_>) -> bool {
    let holder = tx.stamp.holder;
    let lost: Vec<(TaskId, TaskActionKind, u32)> = tx
        .state
        .tasks
        .values()
        .filter_map(|(_, task)| match task.action? {
            TaskAction { what, slot: ActionSlot::Running { epoch, .. } } if Some(epoch) != holder => {
                Some((task.task_id.clone(), what, task.tries))
            }
            TaskAction { .. } => None,
        })
        .collect();
    for (id, what, tries) in &lost {
        match what {
            TaskActionKind::Send | TaskActionKind::Resend if *tries < MAX_SENDS => check_delivery(tx, id),
            TaskActionKind::Send | TaskActionKind::Resend => {
                put_in_doubt(tx, id, "the process stopped again and again")
            }
            TaskActionKind::Ask | TaskActionKind::Cancel => tx.put_action(id, *what, tx.stamp.now),
        }
    }
    !lost.is_empty()
}
