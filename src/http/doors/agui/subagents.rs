//! Tasks of other agents, as version 1.0 knows them: each is told of when the stream first hears of it, and none stays open
//! behind the stream. Clients of the versions before know the activity alone.

use serde_json::{Value, json};

use crate::domain::facts::A2aTaskBody;
use crate::domain::ids::TaskId;
use crate::domain::task::TaskStatus;

#[derive(Clone, Debug, Default)]
pub(super) struct Subagents {
    open: Vec<TaskId>,
    /// Those that the stream has told of, to their end.
    over: Vec<TaskId>,
}

impl Subagents {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn hears(&mut self, task: &A2aTaskBody) -> Vec<Value> {
        let id = &task.task_id;
        if self.over.contains(id) {
            return Vec::new();
        }
        let mut events = Vec::new();
        if !self.open.contains(id) {
            self.open.push(id.clone());
            events.push(json!({
                "type": "SUBAGENT_STARTED", "subagentRunId": id, "name": task.agent_id, "parentToolCallId": task.call_id,
            }));
        }
        match task.status {
            TaskStatus::Sending
            | TaskStatus::Working
            | TaskStatus::InputRequired
            | TaskStatus::AuthRequired
            | TaskStatus::InDoubt => return events,
            TaskStatus::Completed => {
                let outcome = json!({ "type": "success" });
                events.push(json!({ "type": "SUBAGENT_FINISHED", "subagentRunId": id, "outcome": outcome }));
            }
            TaskStatus::Failed | TaskStatus::Rejected | TaskStatus::Canceled | TaskStatus::Lost => {
                let said = task.reason.as_ref().or(task.message.as_ref()).map_or("The task failed.", String::as_str);
                events.push(json!({
                    "type": "SUBAGENT_ERROR", "subagentRunId": id, "message": said, "code": task.status.as_str(),
                }));
            }
        }
        self.open.retain(|open| open != id);
        self.over.push(id.clone());
        events
    }

    /// Those that are open go on without the stream.
    pub(super) fn ends(&mut self) -> Vec<Value> {
        let left = self
            .open
            .drain(..)
            .map(|id| json!({ "type": "SUBAGENT_FINISHED", "subagentRunId": id, "outcome": { "type": "suspended" } }));
        left.collect()
    }
}
