//! What was open as of an observation: the run, its streams and calls, questions to people, tasks of other agents.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::apply::FactContext;
use super::size;
use crate::domain::facts::{A2aTaskBody, Fact};
use crate::domain::hitl::{AskedQuestion, ExpiryPolicy, SuspensionStatus};
use crate::domain::ids::{RunId, SuspensionId, TaskId};
use crate::domain::run::RunStatus;
use crate::domain::state::{A2aWait, OpenSuspension};
use crate::domain::task::TaskStatus;
use crate::domain::thread::ThreadStatus;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct OpenWork {
    pub run: Option<RunId>,
    /// The last run that ended has failed, and none has begun since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_failed: bool,
    /// Streams and calls that have started and not ended.
    begun: BTreeSet<String>,
    /// Oldest first, from `AGENT_SUSPENDED`.
    pub suspensions: IndexMap<SuspensionId, OpenSuspension>,
    /// Oldest first, from `A2A_TASK`.
    pub waits: IndexMap<TaskId, A2aWait>,
}

impl OpenWork {
    pub(super) fn bytes(&self) -> usize {
        let begun: usize = self.begun.iter().map(|id| size_of::<String>() + id.len()).sum();
        begun + self.suspensions.values().map(size::suspension).sum::<usize>() + self.waits.len() * size_of::<A2aWait>()
    }

    pub(super) fn apply(&mut self, context: &FactContext<'_>, fact: &Fact) {
        match fact {
            Fact::RunStarted(_) => *self = Self { run: Some(context.run.clone()), ..Self::default() },
            Fact::RunFinished(body) => self.finish(context.run, body.status),
            Fact::LlmStreamStart(body) => _ = self.begun.insert(body.stream_id.to_string()),
            Fact::LlmStreamEnd(body) => _ = self.begun.remove(body.stream_id.as_str()),
            Fact::LlmStreamError(body) => _ = self.begun.remove(body.stream_id.as_str()),
            Fact::ToolCall(body) => self.begun.extend(body.tool_calls.iter().map(|call| call.call_id.to_string())),
            Fact::ToolExecution(body) => _ = self.begun.remove(body.call_id.as_str()),
            Fact::A2aTask(body) => self.apply_task(context, body),
            Fact::AgentSuspended(body) => self.open_suspension(context, body),
            Fact::AgentResumed(body) => self.close_suspension(&body.suspension_id),
            // A reminder leaves the question open.
            Fact::SuspensionTimeout(body) if body.policy != ExpiryPolicy::Remind => {
                self.close_suspension(&body.suspension_id)
            }
            Fact::SuspensionTimeout(_)
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

    /// The run that ends may also be a queued one.
    fn finish(&mut self, run: &RunId, status: RunStatus) {
        if self.run.as_ref() == Some(run) {
            *self = Self::default();
        }
        self.has_failed = status == RunStatus::Failed;
    }

    fn open_suspension(&mut self, context: &FactContext<'_>, body: &AskedQuestion) {
        if let (false, Some(call)) = (body.while_running, &body.call_id) {
            self.begun.remove(call.as_str());
        }
        let suspension = OpenSuspension {
            question: body.clone(),
            run_id: context.run.clone(),
            thread_id: context.thread.clone(),
            created_at: context.at,
            status: SuspensionStatus::Pending,
            expires_after_ms: None,
            item_id: context.item.cloned(),
            tool_call: None,
            iteration_state: None,
            partial_tool_results: None,
        };
        self.suspensions.insert(body.suspension_id.clone(), suspension);
    }

    /// A call that an agent has is represented by its task until it has its result.
    fn apply_task(&mut self, context: &FactContext<'_>, body: &A2aTaskBody) {
        match body.status {
            TaskStatus::Sending => _ = self.begun.insert(body.call_id.to_string()),
            TaskStatus::Working
            | TaskStatus::InputRequired
            | TaskStatus::AuthRequired
            | TaskStatus::InDoubt
            | TaskStatus::Completed
            | TaskStatus::Failed
            | TaskStatus::Rejected
            | TaskStatus::Canceled
            | TaskStatus::Lost => _ = self.begun.remove(body.call_id.as_str()),
        }
        if body.status.is_terminal() {
            self.waits.shift_remove(&body.task_id);
            return;
        }
        self.waits.insert(body.task_id.clone(), A2aWait { task: body.clone(), item_id: context.item.cloned() });
    }

    fn close_suspension(&mut self, id: &SuspensionId) {
        if let Some(suspension) = self.suspensions.shift_remove(id)
            && let Some(call) = suspension.question.call_id
        {
            // Once answered, its call runs or has its result next.
            self.begun.insert(call.to_string());
        }
    }

    /// The thread's status: it was running as long as anything was in flight, and failed once its last run had.
    pub(super) fn status(&self) -> ThreadStatus {
        match &self.run {
            None if self.has_failed => ThreadStatus::Failed,
            None => ThreadStatus::Idle,
            Some(_) if !self.begun.is_empty() => ThreadStatus::Running,
            Some(_) if !self.suspensions.is_empty() => ThreadStatus::Suspended,
            Some(_) if !self.waits.is_empty() => ThreadStatus::Waiting,
            Some(_) => ThreadStatus::Running,
        }
    }
}
