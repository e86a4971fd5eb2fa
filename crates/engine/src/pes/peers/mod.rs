//! Tasks of other agents: sent, asked about, cancelled, and what the agents report of them.

pub(crate) mod callback;
mod cancel;
mod countdown;
mod question;
pub(crate) mod report;
pub(crate) mod send;

use crate::domain::ids::{CallId, TaskId};
use crate::domain::task::Task;
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
