//! Callbacks of agents: reasons to ask.

use crate::domain::ids::TaskId;
use crate::domain::task::{ActionSlot, TaskAction, TaskActionKind, TaskStatus};
use crate::domain::tool::CallStatus;
use crate::pes::peers::TaskOutcome;
use crate::pes::settle::{suspension, task};
use crate::pes::tx::Tx;

/// A caller who knows the task's secret says that something happened: the agent is asked. If the remote id of the task
/// is unknown, the first callback that names one is believed: only the agent's answer counts anyway.
pub(crate) fn on_callback(tx: &mut Tx<'_>, id: &TaskId, remote: Option<String>) -> TaskOutcome {
    let Some((_, task)) = tx.state.tasks.get(id) else { return TaskOutcome::Unchanged };
    if task.remote_task_id.is_some() && remote.is_some() && task.remote_task_id != remote {
        return TaskOutcome::Unchanged;
    }
    let names_it = task.remote_task_id.is_none() && remote.is_some();
    let (task, now) = (task.clone(), tx.stamp.now);
    let next = match task.action {
        Some(TaskAction { what, slot: ActionSlot::Running { .. } }) => {
            if task.called && !names_it {
                return TaskOutcome::Unchanged;
            }
            tx.change_task(id, |task| task.called = true);
            Some((what, None))
        }
        Some(TaskAction { what: TaskActionKind::Ask, slot: ActionSlot::Ready { at } }) if at <= now => {
            return TaskOutcome::Unchanged;
        }
        Some(TaskAction { what: TaskActionKind::Ask, slot: ActionSlot::Ready { .. } }) => {
            Some((TaskActionKind::Ask, Some(now)))
        }
        Some(TaskAction { what: TaskActionKind::Cancel, slot: ActionSlot::Ready { .. } }) if names_it => {
            Some((TaskActionKind::Cancel, Some(now)))
        }
        Some(TaskAction { what: TaskActionKind::Send | TaskActionKind::Resend, slot: ActionSlot::Ready { .. } })
        | None
            if names_it && !task.status.is_terminal() =>
        {
            Some((TaskActionKind::Ask, Some(now)))
        }
        Some(TaskAction { slot: ActionSlot::Ready { .. }, .. }) | None => return TaskOutcome::Unchanged,
    };
    tx.change_task(id, |task| {
        task.remote_task_id = task.remote_task_id.take().or(remote);
        task.tries = 0;
    });
    if let Some((what, Some(at))) = next {
        tx.put_action(id, what, at);
    }
    if task.status == TaskStatus::InDoubt && names_it {
        suspension::withdraw_question_about_delegation(tx, &task.call_id, "the agent called back");
        tx.set_call_status(&task.call_id, CallStatus::AtPeer);
        tx.change_task(id, |task| task.reason = None);
        task::set_status(tx, id, TaskStatus::Working);
    } else if names_it && !task.status.is_terminal() {
        task::record(tx, id);
    }
    TaskOutcome::Continues
}
