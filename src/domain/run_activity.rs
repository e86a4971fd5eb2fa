//! Whether anything of a run is in progress, derived from its log alone, so that reading the log later gives the same
//! result as following it live.

use std::collections::{HashMap, HashSet};

use super::Millis;
use super::facts::Fact;
use super::hitl::{AskedQuestion, ExpiryPolicy};
use super::ids::{CallId, ItemId, SuspensionId};

/// The open work and the open questions of a run.
#[derive(Clone, Debug, Default)]
pub struct RunActivity {
    /// The open questions, oldest first.
    open: Vec<AskedQuestion>,
    /// Items (`None`: the run itself) whose model is being called, or will be next.
    thinking: HashSet<Option<ItemId>>,
    /// Calls without a result, and whether another agent has them.
    calls: HashMap<CallId, (Option<ItemId>, bool)>,
    /// When a question was asked or closed last, or when the last work beside it ended, whichever came later.
    came_to_wait_at: Millis,
}

impl RunActivity {
    pub fn open(&self) -> &[AskedQuestion] {
        &self.open
    }

    /// Whether nothing is in progress until a person answers.
    pub fn is_suspended(&self) -> bool {
        let is_parked = |call: &CallId| self.open.iter().any(|open| open.call_id.as_ref() == Some(call));
        let is_in_progress =
            |(call, (_, is_at_peer)): (&CallId, &(Option<ItemId>, bool))| !is_at_peer && !is_parked(call);
        !self.open.is_empty() && self.thinking.is_empty() && !self.calls.iter().any(is_in_progress)
    }

    /// Whether the run was suspended until this fact, recorded at this time, which somebody's action caused.
    pub fn is_resumed_by(&self, at: Millis, fact: Option<&Fact>) -> bool {
        let is_resumed = match fact {
            Some(Fact::AgentResumed(_) | Fact::RunFinished(_)) => true,
            Some(Fact::SuspensionTimeout(body)) => body.policy != ExpiryPolicy::Remind,
            Some(Fact::AgentSuspended(_)) => false,
            // A fact in the same commit as a question, or as the end of the last work, belongs to that work.
            Some(_) | None => at != self.came_to_wait_at,
        };
        is_resumed && self.is_suspended()
    }

    /// Applies a fact recorded at this time, of this item if it is an item's.
    pub fn apply(&mut self, item: Option<&ItemId>, at: Millis, fact: &Fact) {
        let was_suspended = self.is_suspended();
        match fact {
            Fact::LlmStreamStart(_) => _ = self.thinking.insert(item.cloned()),
            // Another attempt follows.
            Fact::LlmStreamError(body) if body.retryable => {}
            Fact::LlmStreamEnd(_) | Fact::LlmStreamError(_) => _ = self.thinking.remove(&item.cloned()),
            Fact::ToolCall(body) => {
                let calls = body.tool_calls.iter().map(|call| (call.call_id.clone(), (item.cloned(), false)));
                self.calls.extend(calls);
            }
            Fact::ToolExecution(result) => self.call_returned(&result.call_id),
            Fact::A2aTask(task) => {
                if let Some((_, is_at_peer)) = self.calls.get_mut(&task.call_id) {
                    *is_at_peer = true;
                }
            }
            Fact::ItemStatusChange(change) if change.status.is_settled() => {
                self.thinking.remove(&Some(change.item_id.clone()));
            }
            Fact::AgentSuspended(question) => {
                self.came_to_wait_at = at;
                self.open.push(question.clone());
            }
            Fact::AgentResumed(body) => self.close_question(&body.suspension_id, at),
            Fact::SuspensionTimeout(body) if body.policy == ExpiryPolicy::Remind => {}
            Fact::SuspensionTimeout(body) => self.close_question(&body.suspension_id, at),
            Fact::RunStarted(_)
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
            | Fact::Error(_)
            | Fact::RunFinished(_) => {}
        }
        if !was_suspended && self.is_suspended() {
            self.came_to_wait_at = at;
        }
    }

    /// Removes a call that has its result. After the last result of its calls an item calls its model again.
    fn call_returned(&mut self, call: &CallId) {
        let Some((item, _)) = self.calls.remove(call) else { return };
        if !self.calls.values().any(|(other, _)| *other == item) {
            self.thinking.insert(item);
        }
    }

    /// If another question keeps the run suspended, it is suspended anew: what the same commit starts belongs to the
    /// answer, and makes the run go on for nobody else.
    fn close_question(&mut self, id: &SuspensionId, at: Millis) {
        self.open.retain(|open| open.suspension_id != *id);
        self.came_to_wait_at = at;
    }
}

#[cfg(test)]
mod tests;
