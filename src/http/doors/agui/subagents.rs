//! Tasks of other agents as subagents, which version 1.0 knows. A subagent is started when the stream first sees its
//! task, and every started one is finished before the stream ends. Clients of earlier versions only get the activity.

use serde_json::{Value, json};

use crate::domain::facts::A2aTaskBody;
use crate::domain::ids::TaskId;
use crate::domain::task::TaskStatus;

#[derive(Clone, Debug, Default)]
pub(super) struct Subagents {
    open: Vec<TaskId>,
    /// Those whose end was sent.
    finished: Vec<TaskId>,
}

impl Subagents {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn apply(&mut self, task: &A2aTaskBody) -> Vec<Value> {
        let id = &task.task_id;
        if self.finished.contains(id) {
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
        self.finished.push(id.clone());
        events
    }

    /// Finishes the open ones as suspended, since they go on without the stream.
    pub(super) fn end_all(&mut self) -> Vec<Value> {
        let left = self
            .open
            .drain(..)
            .map(|id| json!({ "type": "SUBAGENT_FINISHED", "subagentRunId": id, "outcome": { "type": "suspended" } }));
        left.collect()
    }
}
