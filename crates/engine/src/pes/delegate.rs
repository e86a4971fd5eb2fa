//! Calls that become tasks of other agents: sent, asked about, given up. A task's actions are slots like any other:
//! committed before they are performed. Asking and cancelling hold nobody up; sending is what a run does.

use super::{batch, item, peer};
use serde_json::Value;

use super::item::error;
use super::retry::backing_off;
use super::tx::{Handled, Taken, Tx};
use crate::domain::Millis;
use crate::domain::fault::Fault;
use crate::domain::ids::{CallId, TaskId};
use crate::domain::observation::ObservationType;
use crate::domain::task::{Delegation, Slot, Task, TaskAction, TaskActionKind, TaskStatus};
use crate::domain::tool::{CallStatus, ToolStatus};

/// How long a task may take if nobody says otherwise.
const WEEK: Millis = 7 * 24 * 3_600_000;
/// After so long an action that nobody answered is done anew; whoever performs it gives up before.
const PATIENCE: Millis = 120_000;
/// After so long it is seen whether whoever performs it is still there.
const GLANCE: Millis = 5_000;

/// The call is handed over: its task begins with the intent to send it.
pub(super) fn hand_over(tx: &mut Tx<'_>, id: &CallId, delegation: Delegation, epoch: i64) {
    let Some(item_id) = tx.state.calls.get(id).map(|call| call.record.item_id.clone()) else { return };
    let now = tx.stamp.now;
    let run = tx.state.active_run();
    let patience = run.settings.execution.delegation_timeout_ms.unwrap_or(WEEK);
    let (thread_id, run_id, trace_id) = (run.thread_id.clone(), run.run_id.clone(), run.trace_id.clone());
    let Delegation { task_id, agent_id, task_type } = delegation;
    let task = Task {
        task_id: task_id.clone(),
        thread_id,
        run_id,
        trace_id,
        item_id,
        call_id: id.clone(),
        agent_id,
        task_type,
        status: TaskStatus::Sending,
        reason: None,
        message: None,
        message_id: tx.mint.message(),
        reply: None,
        remote_task_id: None,
        remote_context_id: None,
        errand: None,
        attempt: 0,
        tries: 0,
        strikes: 0,
        called: false,
        is_out: false,
        cancel_heard: None,
        created_at: now,
        updated_at: now,
        deadline: now.saturating_add(patience),
        finished_at: None,
    };
    let ord = tx.next_ord();
    tx.state.tasks.insert(task_id.clone(), (ord, task));
    call_at_peer(tx, id);
    tx.change_call(id, |call| call.record.epoch = Some(epoch));
    record(tx, &task_id);
    tx.put_action(&task_id, TaskActionKind::Send, now);
    start(tx, &task_id);
}

/// From now on its task says how the call stands.
pub(super) fn call_at_peer(tx: &mut Tx<'_>, id: &CallId) {
    let now = tx.stamp.now;
    tx.change_call(id, |call| {
        call.record.status = CallStatus::AtPeer;
        call.record.updated_at = now;
    });
}

pub(super) fn set_status(tx: &mut Tx<'_>, id: &TaskId, status: TaskStatus) {
    let now = tx.stamp.now;
    tx.change_task(id, |task| {
        task.status = status;
        task.finished_at = status.is_terminal().then_some(now);
    });
    record(tx, id);
}

pub(super) fn record(tx: &mut Tx<'_>, id: &TaskId) {
    let Some((_, task)) = tx.state.tasks.get(id) else { return };
    let (item, told) = (task.item_id.clone(), task.told());
    let title = format!("Task of {}: {}", task.agent_id, told["status"].as_str().unwrap_or_default());
    tx.record(ObservationType::A2aTask, item.as_ref(), title, told);
}

/// The action comes after a while that grows as long as nothing changes: at once if the agent called meanwhile.
pub(super) fn put_off(tx: &mut Tx<'_>, id: &TaskId, what: TaskActionKind, no_sooner_than: Option<Millis>) {
    let (now, seed, limits) = (tx.stamp.now, tx.stamp.seed, tx.world.limits);
    tx.change_task(id, |task| {
        let delay = backing_off(seed, limits.ask_peer_ms, limits.ask_peer_most_ms, task.tries);
        let delay = if std::mem::take(&mut task.called) { 0 } else { delay };
        task.tries += 1;
        let at = now.saturating_add(delay.max(no_sooner_than.unwrap_or(0)));
        task.errand = Some(TaskAction { what, slot: Slot::Ready { at } });
    });
}

/// Starts an action that is due, if the committer may.
pub(super) fn start(tx: &mut Tx<'_>, id: &TaskId) {
    let (now, holder) = (tx.stamp.now, tx.stamp.holder);
    let due = tx.state.tasks.get(id).and_then(|(_, task)| task.errand.filter(|errand| errand.is_due(now)));
    let (Some(epoch), Some(TaskAction { what, .. })) = (holder, due) else { return };
    tx.change_task(id, |task| {
        task.attempt += 1;
        task.is_out |= matches!(what, TaskActionKind::Send | TaskActionKind::Resend);
        task.errand = Some(TaskAction { what, slot: Slot::Running { epoch, since: now } });
    });
}

/// Starts what is due of asking and cancelling: also in a pause, and for runs that are over. Nothing is asked any
/// more once a cancel waits for the holder.
pub(super) fn start_due_task_actions(tx: &mut Tx<'_>) {
    let is_stopping = tx.state.head.active.as_ref().is_some_and(|active| active.cancel.is_some());
    let due = tx.state.tasks.iter().filter(|(_, (_, task))| match task.errand.map(|errand| errand.what) {
        Some(TaskActionKind::Ask) => !is_stopping,
        Some(TaskActionKind::Cancel) => true,
        Some(TaskActionKind::Send | TaskActionKind::Resend) | None => false,
    });
    for id in due.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
        start(tx, &id);
    }
}

/// Tasks whose time is over end their calls; actions that nobody answered are done anew.
pub(super) fn overdue(tx: &mut Tx<'_>) {
    let now = tx.stamp.now;
    let tasks: Vec<Task> = tx.state.tasks.values().map(|(_, task)| task.clone()).collect();
    for task in tasks {
        match task.errand {
            Some(TaskAction {
                what: what @ (TaskActionKind::Ask | TaskActionKind::Cancel),
                slot: Slot::Running { since, .. },
            }) if now - since >= PATIENCE => {
                tx.put_action(&task.task_id, what, now);
            }
            Some(_) | None => {}
        }
        let is_sent_now = matches!(task.sending(), Some(Slot::Running { .. }));
        if task.deadline <= now && !task.status.is_terminal() && !is_sent_now {
            let why = format!("{} did not finish within {} ms", task.agent_id, task.deadline - task.created_at);
            give_up(tx, &task.call_id, "timeout", why);
        }
    }
}

/// A person or a program gives one task up; its item goes on without it.
pub(super) fn cancel(tx: &mut Tx<'_>, id: &TaskId, by: &str) -> Handled {
    let Some((_, task)) = tx.state.tasks.get(id) else { return Err(Fault::not_found("task")) };
    if task.status.is_terminal() {
        return Ok(Taken::No);
    }
    let call = task.call_id.clone();
    give_up(tx, &call, "cancelled", format!("{by} cancelled the task"));
    Ok(Taken::Yes)
}

fn give_up(tx: &mut Tx<'_>, call: &CallId, code: &str, why: String) {
    peer::withdraw_question(tx, call, &why);
    batch::end_call(tx, call, ToolStatus::Error, Err(error(code, why)), None, age(tx, call));
    batch::on_call_ended(tx, call);
}

pub(super) fn age(tx: &Tx<'_>, call: &CallId) -> Millis {
    tx.state.task_of(call).map_or(0, |task| tx.stamp.now - task.created_at)
}

/// Its call has ended: so has the task. An agent that may be at it is told to stop.
pub(super) fn leave(tx: &mut Tx<'_>, call: &CallId, status: ToolStatus, why: Option<String>) {
    let Some(task) = tx.state.task_of(call).filter(|task| !task.status.is_terminal()) else { return };
    let (id, is_out) = (task.task_id.clone(), task.is_out);
    tx.change_task(&id, |task| {
        task.errand = None;
        task.tries = 0;
        task.reason = why;
    });
    match status {
        ToolStatus::Success => set_status(tx, &id, TaskStatus::Completed),
        ToolStatus::Error | ToolStatus::Skipped => {
            set_status(tx, &id, TaskStatus::Canceled);
            if is_out {
                tx.put_action(&id, TaskActionKind::Cancel, tx.stamp.now);
            }
        }
    }
}

/// A person answered what the agent had asked: that is sent to it, as a message of its own.
pub(super) fn reply(tx: &mut Tx<'_>, call: &CallId, value: Value) {
    let Some(id) = tx.state.task_of(call).map(|task| task.task_id.clone()) else { return };
    let message_id = tx.mint.message();
    let reply = tx.store(format!("{message_id}.reply"), value);
    tx.change_task(&id, |task| {
        task.message_id = message_id;
        task.reply = Some(reply);
        task.tries = 0;
    });
    send_again(tx, call);
}

/// The same message goes out, because a person wants it to.
pub(super) fn send_again(tx: &mut Tx<'_>, call: &CallId) {
    let Some(id) = tx.state.task_of(call).map(|task| task.task_id.clone()) else { return };
    call_at_peer(tx, call);
    tx.put_action(&id, TaskActionKind::Send, tx.stamp.now);
    set_status(tx, &id, TaskStatus::Sending);
}

/// A person did what the agent wanted to be done elsewhere: it is asked how it stands.
pub(super) fn look_again(tx: &mut Tx<'_>, call: &CallId) {
    let Some(id) = tx.state.task_of(call).map(|task| task.task_id.clone()) else { return };
    call_at_peer(tx, call);
    tx.change_task(&id, |task| task.tries = 0);
    put_off(tx, &id, TaskActionKind::Ask, None);
    set_status(tx, &id, TaskStatus::Working);
}

/// An item all of whose open calls are elsewhere waits; one that has something to do here does not.
pub(super) fn settle_waiting(tx: &mut Tx<'_>) {
    use crate::domain::plan::ItemStatus::{InProgress, Waiting};
    let moved: Vec<_> = tx
        .state
        .list
        .open()
        .filter_map(|item| {
            let work = item.progress.work.as_ref()?;
            let is_waiting = !tx.state.is_busy(work) && tx.state.batch_has(work, CallStatus::AtPeer);
            let status = if is_waiting { Waiting } else { InProgress };
            (item.progress.status != status).then(|| (item.def.id.clone(), status))
        })
        .collect();
    for (id, status) in moved {
        item::set_status(tx, &id, status, None);
    }
}

/// When a task must be looked at again. Sending is woken with its item.
pub(super) fn wakes_task(task: &Task) -> Option<Millis> {
    let deadline = (!task.status.is_terminal()).then_some(task.deadline);
    match task.errand {
        Some(TaskAction { what: TaskActionKind::Send | TaskActionKind::Resend, slot: Slot::Running { .. } }) => None,
        Some(TaskAction { what: TaskActionKind::Send | TaskActionKind::Resend, slot: Slot::Ready { .. } }) | None => {
            deadline
        }
        Some(TaskAction { what: TaskActionKind::Ask | TaskActionKind::Cancel, slot }) => {
            let at = match slot {
                Slot::Ready { at } => at,
                Slot::Running { since, .. } => since.saturating_add(GLANCE),
            };
            Some(deadline.map_or(at, |deadline| deadline.min(at)))
        }
    }
}

impl Tx<'_> {
    /// Changes a task; nothing happens if it is over.
    pub(super) fn change_task<T>(&mut self, id: &TaskId, change: impl FnOnce(&mut Task) -> T) -> Option<T> {
        let now = self.stamp.now;
        let (_, task) = self.state.tasks.get_mut(id)?;
        self.tasks.insert(id.clone());
        task.updated_at = now;
        Some(change(task))
    }

    pub(super) fn put_action(&mut self, id: &TaskId, what: TaskActionKind, at: Millis) {
        self.change_task(id, |task| task.errand = Some(TaskAction { what, slot: Slot::Ready { at } }));
    }
}

impl TaskAction {
    fn is_due(self, now: Millis) -> bool {
        match self.slot {
            Slot::Ready { at } => at <= now,
            Slot::Running { .. } => false,
        }
    }
}
