//! A run as a task, with the requested level of detail.

use crate::a2a::types::{Part, Task, TaskState};
use crate::a2a::view;
use crate::domain::run::CallerStatus;
use crate::service::a2a::tasks::{Messages, RunSnapshot};

/// How much detail of a task is requested.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskDetail {
    /// The maximum number of messages, the latest ones. `None` means all.
    pub(super) history: Option<u32>,
    pub(super) artifacts: bool,
}

impl TaskDetail {
    /// The messages that are needed to show it.
    pub(super) fn messages(self) -> Messages {
        if self.artifacts || self.history != Some(0) { Messages::All } else { Messages::OfFailedRuns }
    }
}

pub(super) fn task(snapshot: &RunSnapshot, detail: TaskDetail) -> Task {
    trimmed(view::task(&snapshot.run, &snapshot.open, &snapshot.messages, snapshot.urls.as_ref()), detail)
}

/// The task with no more than this detail.
pub(super) fn trimmed(mut task: Task, detail: TaskDetail) -> Task {
    let skipped = detail.history.map_or(0, |most| task.history.len().saturating_sub(most as usize));
    task.history.drain(..skipped);
    if !detail.artifacts {
        task.artifacts.clear();
    }
    task
}

/// The run statuses that this task state stands for.
pub(super) fn run_statuses(state: TaskState) -> &'static [CallerStatus] {
    match state {
        TaskState::Submitted => &[CallerStatus::Queued],
        TaskState::Working => &[CallerStatus::Running, CallerStatus::Waiting],
        TaskState::InputRequired => &[CallerStatus::Suspended],
        TaskState::AuthRequired => &[CallerStatus::NeedsAuth],
        TaskState::Completed => &[CallerStatus::Completed],
        TaskState::Failed => &[CallerStatus::Failed],
        TaskState::Canceled => &[CallerStatus::Cancelled],
        TaskState::Rejected => &[CallerStatus::Refused],
        TaskState::Unspecified => &[],
    }
}

/// The task with its question repeated, after the reason why the message was no answer.
pub(super) fn with_complaint(mut task: Task, complaint: &str) -> Task {
    if let Some(message) = &mut task.status.message {
        message.parts.insert(0, Part::text(complaint));
    }
    task
}
