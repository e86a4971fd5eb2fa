//! Tasks of other agents: sent, asked about, given up, and what the agents report of them.

pub(crate) mod report;
pub(crate) mod send;

use crate::domain::ids::CallId;

/// What an event came to for the call that became a task.
pub(crate) enum TaskOutcome {
    /// It changes nothing: too late, twice, or nothing due.
    Unchanged,
    Continues,
    /// The call has ended: its item may go on.
    CallEnded(CallId),
}
