//! Calls that become tasks of other agents: sent, asked about, cancelled. A task's actions are slots like any other:
//! committed before they are performed. Asking and cancelling hold up no run; sending is part of one.

use serde_json::Value;

use crate::domain::Millis;
use crate::domain::fault::Fault;
use crate::domain::ids::{CallId, SuspensionId, TaskId};
use crate::domain::task::{ActionSlot, AuthAnswer, Delegation, Task, TaskAction, TaskActionKind, TaskStatus};
use crate::domain::tool::{CallCode, CallStatus, ToolError};
use crate::pes::peers::TaskOutcome;
use crate::pes::settle::call::{self, CallEnd};
use crate::pes::settle::{suspension, task};
use crate::pes::tx::Tx;

/// The deadline of a task if nothing else is configured.
const DEFAULT_TASK_TIMEOUT: Millis = 7 * 24 * 3_600_000;
/// An agent that called back while it was asked is asked again after this delay, however often it calls.
const MAX_DELAY_AFTER_CALLBACK: Millis = 1_000;
/// An action in flight that was not answered for this long is started again; the process that performs it gives up
/// earlier.
const ACTION_TIMEOUT: Millis = 120_000;

impl TaskAction {
    fn is_due(self, now: Millis) -> bool {
        match self.slot {
            ActionSlot::Ready { at } => at <= now,
            ActionSlot::Running { .. } => false,
        }
    }
}

/// Hands the call over to an agent: creates its task, with the intent to send it.
pub(crate) fn hand_over(tx: &mut Tx<'_>, id: &CallId, delegation: Delegation, epoch: i64) {
    let Some(item_id) = tx.state.calls.get(id).map(|call| call.record.item_id.clone()) else { return };
    let now = tx.stamp.now;
    let run = tx.state.active_run();
    let patience = run.settings.execution.delegation_timeout_ms.unwrap_or(DEFAULT_TASK_TIMEOUT);
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
        remote_question: None,
        refusal: None,
        auth_answer: None,
        action: None,
        attempt: 0,
        tries: 0,
        negative_replies: 0,
        unreadable_replies: 0,
        questions: 0,
        called: false,
        may_have_arrived: false,
        earlier_may_have_arrived: false,
        cancel_heard: None,
        created_at: now,
        updated_at: now,
        deadline: now.saturating_add(patience),
        finished_at: None,
    };
    let ord = tx.next_ord();
    tx.state.tasks.insert(task_id.clone(), (ord, task));
    tx.set_call_status(id, CallStatus::AtPeer);
    tx.change_call(id, |call| call.record.epoch = Some(epoch));
    task::record(tx, &task_id);
    tx.put_action(&task_id, TaskActionKind::Send, now);
    start(tx, &task_id);
}

/// Schedules the action after a delay that grows with each one, or soon if the agent called back meanwhile.
pub(crate) fn schedule_action(tx: &mut Tx<'_>, id: &TaskId, what: TaskActionKind, no_sooner_than: Option<Millis>) {
    let (now, seed, limits) = (tx.stamp.now, tx.stamp.seed, tx.world.limits);
    tx.change_task(id, |task| {
        let delay = backoff_delay(seed, limits.ask_peer_ms, limits.ask_peer_most_ms, task.tries);
        let delay = if std::mem::take(&mut task.called) { delay.min(MAX_DELAY_AFTER_CALLBACK) } else { delay };
        task.tries += 1;
        let at = now.saturating_add(delay.max(no_sooner_than.unwrap_or(0)));
        task.action = Some(TaskAction { what, slot: ActionSlot::Ready { at } });
    });
}

/// Starts an action that is due, if the committer holds the lease.
pub(crate) fn start(tx: &mut Tx<'_>, id: &TaskId) {
    let (now, holder) = (tx.stamp.now, tx.stamp.holder);
    let due = tx.state.tasks.get(id).and_then(|(_, task)| task.action.filter(|action| action.is_due(now)));
    let (Some(epoch), Some(TaskAction { what, .. })) = (holder, due) else { return };
    tx.change_task(id, |task| {
        task.attempt += 1;
        task.may_have_arrived |= matches!(what, TaskActionKind::Send | TaskActionKind::Resend);
        task.action = Some(TaskAction { what, slot: ActionSlot::Running { epoch, since: now } });
    });
}

/// Starts the asking and cancelling that is due: also during a pause, and for runs that are over. Once a cancel waits
/// for the lease holder, no agent is asked any more.
pub(crate) fn start_due_task_actions(tx: &mut Tx<'_>) {
    let is_stopping = tx.state.is_cancelling();
    let due = tx.state.tasks.iter().filter(|(_, (_, task))| match task.action.map(|action| action.what) {
        Some(TaskActionKind::Ask) => !is_stopping,
        Some(TaskActionKind::Cancel) => true,
        Some(TaskActionKind::Send | TaskActionKind::Resend) | None => false,
    });
    for id in due.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
        start(tx, &id);
    }
}

/// Ends the call of a task whose deadline has passed; starts an action again that nobody answered.
pub(crate) fn check_deadline(tx: &mut Tx<'_>, task: &Task) -> TaskOutcome {
    let now = tx.stamp.now;
    match task.action {
        Some(TaskAction {
            what: what @ (TaskActionKind::Ask | TaskActionKind::Cancel),
            slot: ActionSlot::Running { since, .. },
        }) if now - since >= ACTION_TIMEOUT => {
            tx.put_action(&task.task_id, what, now);
        }
        Some(_) | None => {}
    }
    let is_sent_now = matches!(task.send_slot(), Some(ActionSlot::Running { .. }));
    if task.deadline > now || task.status.is_terminal() || is_sent_now {
        return TaskOutcome::Continues;
    }
    let why = format!("{} did not finish within {} ms", task.agent_id, task.deadline - task.created_at);
    give_up(tx, &task.call_id, CallCode::Timeout, why)
}

/// A person or a program cancels one task; its item continues without it.
pub(crate) fn cancel(tx: &mut Tx<'_>, id: &TaskId, by: &str) -> Result<TaskOutcome, Fault> {
    let Some((_, task)) = tx.state.tasks.get(id) else { return Err(Fault::not_found("task")) };
    if task.status.is_terminal() {
        return Ok(TaskOutcome::Unchanged);
    }
    let call = task.call_id.clone();
    Ok(give_up(tx, &call, CallCode::Cancelled, format!("{by} cancelled the task")))
}

/// Ends the call without a result, and has the agent told to stop.
pub(crate) fn give_up(tx: &mut Tx<'_>, call: &CallId, code: CallCode, why: String) -> TaskOutcome {
    suspension::withdraw_question_about_delegation(tx, call, &why);
    let age = task::age(tx, call);
    call::end(tx, call, CallEnd::error(ToolError::new(code, why)).after(age));
    TaskOutcome::CallEnded(call.clone())
}

/// A person answered the agent's question: the answer is sent to it, as a message of its own. It is stored under the id
/// of the question, which is the id that the log has.
pub(crate) fn reply(tx: &mut Tx<'_>, call: &CallId, question: &SuspensionId, value: Value) {
    let reply = tx.store(format!("{question}.reply"), value);
    send_reply(tx, call, reply);
}

/// Sends an answer that is stored.
fn send_reply(tx: &mut Tx<'_>, call: &CallId, reply: Value) {
    let Some(id) = tx.state.task_of(call).map(|task| task.task_id.clone()) else { return };
    let message_id = tx.mint.message();
    tx.change_task(&id, |task| {
        task.message_id = message_id;
        task.reply = Some(reply);
        task.refusal = None;
    });
    send_again(tx, call);
}

/// Sends the agent what a person answered to its demand, once, as it demands the same.
pub(crate) fn send_auth_answer(tx: &mut Tx<'_>, task: &Task, answer: AuthAnswer) {
    let reply = answer.reply.clone();
    tx.change_task(&task.task_id, |task| task.auth_answer = Some(AuthAnswer { is_sent: true, ..answer }));
    send_reply(tx, &task.call_id, reply);
}

/// Sends the same message again because a person wants it, with as many tries as the first time.
pub(crate) fn send_again(tx: &mut Tx<'_>, call: &CallId) {
    let Some(id) = tx.state.task_of(call).map(|task| task.task_id.clone()) else { return };
    tx.set_call_status(call, CallStatus::AtPeer);
    tx.change_task(&id, |task| (task.tries, task.reason) = (0, None));
    tx.put_action(&id, TaskActionKind::Send, tx.stamp.now);
    task::set_status(tx, &id, TaskStatus::Sending);
}

/// A person did what the agent required elsewhere, as this answer to the question says: the agent is asked for the task's
/// state.
pub(crate) fn ask_now(tx: &mut Tx<'_>, call: &CallId, question: &SuspensionId, answer: AuthAnswer) {
    let Some(id) = tx.state.task_of(call).map(|task| task.task_id.clone()) else { return };
    let reply = tx.store(format!("{question}.reply"), answer.reply);
    tx.set_call_status(call, CallStatus::AtPeer);
    tx.change_task(&id, |task| {
        task.tries = 0;
        task.auth_answer = Some(AuthAnswer { reply, ..answer });
    });
    schedule_action(tx, &id, TaskActionKind::Ask, None);
    task::set_status(tx, &id, TaskStatus::Working);
}

/// Exponential backoff, with jitter in the upper half of the delay.
pub(crate) fn backoff_delay(seed: u64, first: Millis, most: Millis, failures: u32) -> Millis {
    let most = first.saturating_mul(1 << failures.min(10)).min(most);
    most / 2 + (seed % (most / 2 + 1) as u64) as i64
}
