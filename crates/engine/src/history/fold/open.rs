//! What was open as of an observation: the run, its streams and calls, questions to people, tasks of other agents.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::size;
use super::tell::Place;
use crate::domain::facts::{A2aTaskBody, Fact};
use crate::domain::hitl::{AskedQuestion, ExpiryPolicy, SuspensionStatus};
use crate::domain::ids::{RunId, SuspensionId, TaskId};
use crate::domain::state::{A2aWait, OpenSuspension};
use crate::domain::task::TaskStatus;
use crate::domain::thread::ThreadStatus;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Open {
    pub run: Option<RunId>,
    /// Streams and calls that have started and not ended.
    begun: BTreeSet<String>,
    /// Oldest first, from `AGENT_SUSPENDED`.
    pub suspensions: IndexMap<SuspensionId, OpenSuspension>,
    /// Oldest first, from `A2A_TASK`.
    pub waits: IndexMap<TaskId, A2aWait>,
}

impl Open {
    pub(super) fn bytes(&self) -> usize {
        let begun: usize = self.begun.iter().map(|id| size_of::<String>() + id.len()).sum();
        begun + self.suspensions.values().map(size::suspension).sum::<usize>() + self.waits.len() * size_of::<A2aWait>()
    }

    pub(super) fn tell(&mut self, place: &Place<'_>, fact: &Fact) {
        match fact {
            Fact::RunStarted(_) => *self = Self { run: Some(place.run.clone()), ..Self::default() },
            Fact::RunFinished(_) if self.run.as_ref() == Some(place.run) => *self = Self::default(),
            Fact::LlmStreamStart(told) => _ = self.begun.insert(told.stream_id.to_string()),
            Fact::LlmStreamEnd(told) => _ = self.begun.remove(told.stream_id.as_str()),
            Fact::LlmStreamError(told) => _ = self.begun.remove(told.stream_id.as_str()),
            Fact::ToolCall(told) => self.begun.extend(told.tool_calls.iter().map(|call| call.call_id.to_string())),
            Fact::ToolExecution(told) => _ = self.begun.remove(told.call_id.as_str()),
            Fact::A2aTask(told) => self.task(place, told),
            Fact::AgentSuspended(told) => self.suspended(place, told),
            Fact::AgentResumed(told) => self.resolved(&told.suspension_id),
            // A reminder leaves the question open.
            Fact::SuspensionTimeout(told) if told.policy != ExpiryPolicy::Remind => self.resolved(&told.suspension_id),
            Fact::RunFinished(_)
            | Fact::SuspensionTimeout(_)
            | Fact::Intent(_)
            | Fact::Title(_)
            | Fact::Plan(_)
            | Fact::PlanUpdate(_)
            | Fact::ItemStatusChange(_)
            | Fact::LlmStreamMetadata(_)
            | Fact::Thoughts(_)
            | Fact::StateUpdate(_)
            | Fact::Synthesis(_)
            | Fact::FinalResponse(_)
            | Fact::Error(_) => {}
        }
    }

    fn suspended(&mut self, place: &Place<'_>, told: &AskedQuestion) {
        if let (false, Some(call)) = (told.while_running, &told.call_id) {
            self.begun.remove(call.as_str());
        }
        let suspension = OpenSuspension {
            question: told.clone(),
            run_id: place.run.clone(),
            thread_id: place.thread.clone(),
            created_at: place.at,
            status: SuspensionStatus::Pending,
            expires_after_ms: None,
            item_id: place.item.cloned(),
            tool_call: None,
            iteration_state: None,
            partial_tool_results: None,
        };
        self.suspensions.insert(told.suspension_id.clone(), suspension);
    }

    /// A call that an agent has is represented by its task until it has its result.
    fn task(&mut self, place: &Place<'_>, told: &A2aTaskBody) {
        match told.status {
            TaskStatus::Sending => _ = self.begun.insert(told.call_id.to_string()),
            TaskStatus::Working
            | TaskStatus::InputRequired
            | TaskStatus::AuthRequired
            | TaskStatus::InDoubt
            | TaskStatus::Completed
            | TaskStatus::Failed
            | TaskStatus::Rejected
            | TaskStatus::Canceled
            | TaskStatus::Lost => _ = self.begun.remove(told.call_id.as_str()),
        }
        if told.status.is_terminal() {
            self.waits.shift_remove(&told.task_id);
            return;
        }
        self.waits.insert(told.task_id.clone(), A2aWait { task: told.clone(), item_id: place.item.cloned() });
    }

    fn resolved(&mut self, id: &SuspensionId) {
        if let Some(suspension) = self.suspensions.shift_remove(id)
            && let Some(call) = suspension.question.call_id
        {
            // Once answered, its call runs or has its result next.
            self.begun.insert(call.to_string());
        }
    }

    /// The thread's status: it was running as long as anything was in flight.
    pub(super) fn status(&self) -> ThreadStatus {
        match &self.run {
            None => ThreadStatus::Idle,
            Some(_) if !self.begun.is_empty() => ThreadStatus::Running,
            Some(_) if !self.suspensions.is_empty() => ThreadStatus::Suspended,
            Some(_) if !self.waits.is_empty() => ThreadStatus::Waiting,
            Some(_) => ThreadStatus::Running,
        }
    }
}
