//! Tasks of other agents: sent, asked about, cancelled, and what the agents report of them.

pub(crate) mod callback;
mod cancel;
mod countdown;
pub(crate) mod failure;
mod question;
pub(crate) mod report;
pub(crate) mod send;

use serde_json::Value;

use crate::domain::ids::{CallId, TaskId};
use crate::domain::task::{ActionSlot, Task, TaskAction, TaskActionKind, TaskStatus};
use crate::domain::tool::ToolError;
use crate::pes::settle::call::{self, CallEnd, CallResult};
use crate::pes::settle::{suspension, task};
use crate::pes::state::State;
use crate::pes::tx::Tx;

/// The effect of an event on the call that became a task.
pub(crate) enum TaskOutcome {
    /// It changed nothing: too late, a duplicate, or nothing was due.
    Unchanged,
    Continues,
    /// The call has ended: its item may continue.
    CallEnded(CallId),
}

/// Counts a reply of the agent that was no report. Returns how many of this kind there were since its last report.
fn count_reply(tx: &mut Tx<'_>, id: &TaskId, counter: impl FnOnce(&mut Task) -> &mut u32) -> u32 {
    let counted = tx.change_task(id, |task| {
        let counter = counter(task);
        *counter += 1;
        *counter
    });
    counted.unwrap_or_default()
}

/// The action that this attempt answers, if it is still in flight.
fn under_way(state: &State, id: &TaskId, attempt: u32) -> Option<(Task, TaskActionKind)> {
    let (_, task) = state.tasks.get(id)?;
    match task.action? {
        TaskAction { what, slot: ActionSlot::Running { .. } } if task.attempt == attempt => Some((task.clone(), what)),
        TaskAction { .. } => None,
    }
}

/// Ends the task and its call.
fn end_task(
    tx: &mut Tx<'_>,
    id: &TaskId,
    call: &CallId,
    status: TaskStatus,
    result: Result<Value, ToolError>,
) -> TaskOutcome {
    suspension::withdraw_question_about_delegation(tx, call, "the agent ended the task");
    task::set_status(tx, id, status);
    let age = task::age(tx, call);
    call::end(tx, call, CallEnd::from(CallResult::from(result)).after(age));
    TaskOutcome::CallEnded(call.clone())
}
