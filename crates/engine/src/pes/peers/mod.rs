//! Tasks of other agents: sent, asked about, cancelled, and what the agents report of them.

pub(crate) mod callback;
mod cancel;
mod question;
pub(crate) mod report;
pub(crate) mod send;

use crate::domain::ids::CallId;

/// The effect of an event on the call that became a task.
pub(crate) enum TaskOutcome {
    /// It changed nothing: too late, a duplicate, or nothing was due.
    Unchanged,
    Continues,
    /// The call has ended: its item may continue.
    CallEnded(CallId),
}
