//! A run as a task, as much of it as is wanted.

use crate::a2a::types::{Part, Task, TaskState};
use crate::a2a::view;
use crate::domain::run::CallerStatus;
use crate::service::a2a::tasks::RunSnapshot;

/// How much of a task is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Show {
    /// At most that many of the latest messages; `None`: all.
    pub(super) history: Option<u32>,
    pub(super) artifacts: bool,
}

impl Show {
    pub(super) fn wants_messages(self) -> bool {
        self.artifacts || self.history != Some(0)
    }
}

pub(super) fn task(snapshot: &RunSnapshot, show: Show) -> Task {
    let mut task = view::task(&snapshot.run, &snapshot.open, &snapshot.messages, snapshot.urls.as_ref());
    let skipped = show.history.map_or(0, |most| task.history.len().saturating_sub(most as usize));
    task.history.drain(..skipped);
    if !show.artifacts {
        task.artifacts.clear();
    }
    task
}

/// The standings of runs whose tasks have that state.
pub(super) fn standings(state: TaskState) -> &'static [CallerStatus] {
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

/// The task whose question was not answered: the question again, after what was wrong.
pub(super) fn complain(mut task: Task, complaint: &str) -> Task {
    if let Some(message) = &mut task.status.message {
        message.parts.insert(0, Part::text(complaint));
    }
    task
}
