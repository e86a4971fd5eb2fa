//! What was open as of an observation: the run, its streams and calls, questions to people.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::domain::observation::{Observation, ObservationType};
use crate::domain::task::TaskStatus;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Open {
    pub run: Option<String>,
    /// Streams and calls that were begun and have not ended.
    begun: BTreeSet<String>,
    /// By id, oldest first, as `AGENT_SUSPENDED` told them.
    pub suspensions: Map<String, Value>,
    /// By id, oldest first, as `A2A_TASK` told them.
    pub waits: Map<String, Value>,
}

impl Open {
    pub(super) fn tell(&mut self, told: &Observation) {
        let content = &told.content;
        let word = |key: &str| content[key].as_str().unwrap_or_default().to_owned();
        match told.kind {
            ObservationType::RunStarted => {
                *self = Self { run: Some(told.run_id.to_string()), ..Self::default() };
            }
            ObservationType::RunFinished if self.run.as_deref() == Some(told.run_id.as_str()) => {
                *self = Self::default()
            }
            ObservationType::LlmStreamStart => _ = self.begun.insert(word("streamId")),
            ObservationType::LlmStreamEnd | ObservationType::LlmStreamError => {
                self.begun.remove(&word("streamId"));
            }
            ObservationType::ToolCall => {
                let calls = content["toolCalls"].as_array().map(Vec::as_slice).unwrap_or_default();
                self.begun.extend(calls.iter().filter_map(|call| call["callId"].as_str()).map(str::to_owned));
            }
            ObservationType::ToolExecution => _ = self.begun.remove(&word("callId")),
            ObservationType::A2aTask => self.task(told),
            ObservationType::AgentSuspended => self.suspended(told),
            ObservationType::AgentResumed => self.resolved(&word("suspensionId")),
            // A reminder leaves the question open.
            ObservationType::SuspensionTimeout if word("policy") != "remind" => self.resolved(&word("suspensionId")),
            ObservationType::RunFinished
            | ObservationType::SuspensionTimeout
            | ObservationType::Intent
            | ObservationType::Title
            | ObservationType::Plan
            | ObservationType::PlanUpdate
            | ObservationType::ItemStatusChange
            | ObservationType::LlmStreamMetadata
            | ObservationType::Thoughts
            | ObservationType::StateUpdate
            | ObservationType::Synthesis
            | ObservationType::FinalResponse
            | ObservationType::Error => {}
        }
    }

    fn suspended(&mut self, told: &Observation) {
        let mut suspension = told.content.clone();
        let Some(id) = suspension["suspensionId"].as_str().map(str::to_owned) else { return };
        if suspension["whileRunning"] != true {
            self.begun.remove(suspension["callId"].as_str().unwrap_or_default());
        }
        suspension["runId"] = told.run_id.as_str().into();
        suspension["threadId"] = told.thread_id.as_str().into();
        suspension["createdAt"] = told.timestamp.into();
        suspension["status"] = "pending".into();
        if let Some(item) = &told.parent_id {
            suspension["itemId"] = item.as_str().into();
        }
        self.suspensions.insert(id, suspension);
    }

    /// A call that an agent has is told of by its task until it has its result.
    fn task(&mut self, told: &Observation) {
        let mut task = told.content.clone();
        let (Some(id), call) = (task["taskId"].as_str().map(str::to_owned), task["callId"].as_str()) else { return };
        let call = call.unwrap_or_default().to_owned();
        let status = serde_json::from_value::<TaskStatus>(task["status"].clone());
        match status {
            Ok(TaskStatus::Sending) | Err(_) => _ = self.begun.insert(call),
            Ok(
                TaskStatus::Working
                | TaskStatus::InputRequired
                | TaskStatus::AuthRequired
                | TaskStatus::InDoubt
                | TaskStatus::Completed
                | TaskStatus::Failed
                | TaskStatus::Rejected
                | TaskStatus::Canceled
                | TaskStatus::Lost,
            ) => _ = self.begun.remove(&call),
        }
        if status.is_ok_and(TaskStatus::is_terminal) {
            self.waits.shift_remove(&id);
            return;
        }
        if let Some(item) = &told.parent_id {
            task["itemId"] = item.as_str().into();
        }
        self.waits.insert(id, task);
    }

    fn resolved(&mut self, id: &str) {
        if let Some(suspension) = self.suspensions.shift_remove(id)
            && let Some(call) = suspension["callId"].as_str()
        {
            // Answered, its call runs or has its result next.
            self.begun.insert(call.to_owned());
        }
    }

    /// The thread's status: as long as anything was under way, it was running.
    pub(super) fn status(&self) -> &'static str {
        match &self.run {
            None => "idle",
            Some(_) if !self.begun.is_empty() => "running",
            Some(_) if !self.suspensions.is_empty() => "suspended",
            Some(_) if !self.waits.is_empty() => "waiting",
            Some(_) => "running",
        }
    }
}
