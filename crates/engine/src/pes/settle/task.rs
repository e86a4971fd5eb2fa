//! The task of another agent: its status is recorded, and it ends with its call.

use crate::domain::Millis;
use crate::domain::ids::{CallId, TaskId};
use crate::domain::task::{TaskActionKind, TaskStatus};
use crate::pes::tx::Tx;

/// Changes a task's status and records it.
pub(crate) fn set_status(tx: &mut Tx<'_>, id: &TaskId, status: TaskStatus) {
    let now = tx.stamp.now;
    tx.change_task(id, |task| {
        task.status = status;
        task.finished_at = status.is_terminal().then_some(now);
    });
    record(tx, id);
}

/// Records a task's current status.
pub(crate) fn record(tx: &mut Tx<'_>, id: &TaskId) {
    let Some((_, task)) = tx.state.tasks.get(id) else { return };
    let (item, body) = (task.item_id.clone(), task.observation_body());
    let title = format!("Task of {}: {}", task.agent_id, task.status.as_str());
    tx.record(item.as_ref(), title, body);
}

/// How long the call's task has existed.
pub(crate) fn age(tx: &Tx<'_>, call: &CallId) -> Millis {
    tx.state.task_of(call).map_or(0, |task| tx.stamp.now - task.created_at)
}

/// The call succeeded: its task is completed, if it is still open.
pub(crate) fn complete(tx: &mut Tx<'_>, call: &CallId) {
    if let Some(id) = open_of(tx, call) {
        settle(tx, &id, None);
        set_status(tx, &id, TaskStatus::Completed);
    }
}

/// The call failed or was skipped: its task is cancelled, if it is still open. An agent that may be working on it is
/// sent a cancel.
pub(crate) fn cancel_open(tx: &mut Tx<'_>, call: &CallId, why: &str) {
    if let Some(id) = open_of(tx, call) {
        cancel(tx, &id, Some(why.to_owned()));
    }
}

fn open_of(tx: &Tx<'_>, call: &CallId) -> Option<TaskId> {
    let task = tx.state.task_of(call).filter(|task| !task.status.is_terminal())?;
    Some(task.task_id.clone())
}

/// Cancels a task that nobody waits for any more. An agent that may be working on it is sent a cancel.
pub(crate) fn cancel(tx: &mut Tx<'_>, id: &TaskId, why: Option<String>) {
    let may_have_arrived = settle(tx, id, why);
    set_status(tx, id, TaskStatus::Canceled);
    if may_have_arrived {
        tx.put_action(id, TaskActionKind::Cancel, tx.stamp.now);
    }
}

/// Drops the task's next action. `true`: the agent may have received the task.
fn settle(tx: &mut Tx<'_>, id: &TaskId, why: Option<String>) -> bool {
    let may_have_arrived = tx.change_task(id, |task| {
        task.action = None;
        task.tries = 0;
        (task.negative_replies, task.unreadable_replies) = (0, 0);
        task.reason = why;
        task.may_have_arrived
    });
    may_have_arrived.unwrap_or(false)
}
