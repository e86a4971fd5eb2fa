//! Reports of agents on their tasks. Only the answer to a request of ours counts: a callback is only a reason to ask,
//! and an answer to an action that is no longer in flight changes nothing.

use crate::domain::hitl::{InputType, SuspensionKind};
use crate::domain::ids::TaskId;
use crate::domain::task::{PeerReport, PeerState, Task, TaskActionKind, TaskStatus};
use crate::domain::tool::{CallCode, CallStatus, ToolError};
use crate::pes::peers::question::{self, PeerQuestion};
use crate::pes::peers::{TaskOutcome, cancel, end_task, send, under_way};
use crate::pes::settle::{suspension, task};
use crate::pes::tx::Tx;

/// The agent reported the state of its task.
pub(crate) fn on_report(tx: &mut Tx<'_>, id: &TaskId, attempt: u32, mut report: PeerReport) -> TaskOutcome {
    let Some((task, what)) = under_way(tx.state, id, attempt) else { return TaskOutcome::Unchanged };
    if what == TaskActionKind::Cancel {
        cancel::settle(tx, id, true);
        return TaskOutcome::Continues;
    }
    let refusal = standing_refusal(&task, &report);
    store_report(tx, &task, what, refusal.clone(), &mut report);
    // The log has these, too, so they are recorded also if the status stays the same.
    let shown = |task: &Task| (task.remote_task_id.clone(), task.remote_context_id.clone(), task.deadline);
    let is_news = tx.state.tasks.get(id).is_some_and(|(_, changed)| shown(changed) != shown(&task));
    let message = report.message.clone();
    let ends = |status, code: CallCode| {
        let why = report.message.clone().unwrap_or_else(|| format!("{} gave no reason", task.agent_id));
        (status, Err(ToolError::new(code, why)))
    };
    let (status, result) = match report.state {
        PeerState::Completed => (TaskStatus::Completed, Ok(report.output)),
        PeerState::Failed => ends(TaskStatus::Failed, CallCode::PeerFailed),
        PeerState::Rejected => ends(TaskStatus::Rejected, CallCode::PeerRejected),
        PeerState::Canceled => ends(TaskStatus::Canceled, CallCode::PeerCanceled),
        // The agent reported this before our answer reached it.
        PeerState::InputRequired | PeerState::AuthRequired
            if what != TaskActionKind::Ask && task.reply.is_some() && !question::is_asked_again(&task, &report) =>
        {
            task_continues(tx, id, TaskStatus::Working, message, is_news);
            return TaskOutcome::Continues;
        }
        PeerState::Working => {
            task_continues(tx, id, TaskStatus::Working, message, is_news);
            return TaskOutcome::Continues;
        }
        PeerState::InputRequired => {
            task_continues(tx, id, TaskStatus::InputRequired, message, is_news);
            let asked = PeerQuestion::of_waiting(&task, report).after_refusal(&task, refusal);
            return question::ask_a_person(tx, &task, asked);
        }
        PeerState::AuthRequired => return auth_required(tx, &task, report, refusal, is_news),
    };
    tx.change_task(id, |task| task.message = message);
    end_task(tx, id, &task.call_id, status, result)
}

/// Why the agent refused the last answer, if it still asks the same question.
fn standing_refusal(task: &Task, report: &PeerReport) -> Option<String> {
    let asks = matches!(report.state, PeerState::InputRequired | PeerState::AuthRequired);
    task.refusal.clone().filter(|_| asks && report.question == task.remote_question)
}

/// Stores what the report says of the task, besides its state and its message.
fn store_report(tx: &mut Tx<'_>, task: &Task, what: TaskActionKind, refusal: Option<String>, report: &mut PeerReport) {
    tx.change_task(&task.task_id, |task| {
        task.action = None;
        (task.negative_replies, task.unreadable_replies) = (0, 0);
        task.reason = None;
        task.remote_task_id = task.remote_task_id.take().or(report.remote_task_id.take());
        task.remote_context_id = report.remote_context_id.take().or(task.remote_context_id.take());
        task.remote_question = report.question.clone();
        task.refusal = refusal;
        // Whether an answer that had to be looked for has arrived is not certain: a person is asked once more.
        if report.state != PeerState::AuthRequired || what == TaskActionKind::Resend {
            task.auth_answer = None;
        }
        if let Some(patience) = report.patience_ms {
            task.deadline = task.deadline.min(task.created_at.saturating_add(patience));
        }
    });
}

/// The agent waits for an authorisation. It is told that it was given, if a person has said so, else a person is asked.
/// `why`: why it refused the last answer, if it did.
fn auth_required(tx: &mut Tx<'_>, task: &Task, report: PeerReport, why: Option<String>, is_news: bool) -> TaskOutcome {
    let (id, message) = (&task.task_id, report.message.clone());
    let report = PeerReport { form: None, ..report };
    let asked = PeerQuestion::of(task, SuspensionKind::PeerAuth, report, InputType::Confirm);
    let is_certain = task.status != TaskStatus::InDoubt;
    let answer = task.auth_answer.clone().filter(|answer| is_certain && asked.is_answered_by(answer, tx.stamp.now));
    let Some(answer) = answer else {
        tx.change_task(id, |task| task.auth_answer = None);
        task_continues(tx, id, TaskStatus::AuthRequired, message, is_news);
        return question::ask_a_person(tx, task, asked.after_refusal(task, why));
    };
    if answer.is_sent {
        task_continues(tx, id, TaskStatus::Working, message, is_news);
    } else {
        send::send_auth_answer(tx, task, answer);
    }
    TaskOutcome::Continues
}

/// The task is not over: the agent is asked again, soon if it has just received a message of ours. An agent that
/// changes the status by itself is still asked less and less often. What it says about an unchanged status is not kept,
/// as it is not recorded.
fn task_continues(tx: &mut Tx<'_>, id: &TaskId, status: TaskStatus, message: Option<String>, is_news: bool) {
    let Some((_, task)) = tx.state.tasks.get(id) else { return };
    let (call, has_changed) = (task.call_id.clone(), task.status != status);
    if matches!(task.status, TaskStatus::Sending | TaskStatus::InDoubt) {
        tx.change_task(id, |task| task.tries = 0);
    }
    send::schedule_action(tx, id, TaskActionKind::Ask, None);
    if has_changed {
        suspension::withdraw_question_about_delegation(tx, &call, "the agent went on by itself");
        tx.set_call_status(&call, CallStatus::AtPeer);
    }
    if has_changed || is_news {
        tx.change_task(id, |task| task.message = message);
        task::set_status(tx, id, status);
    }
}
