//! `PESAgentStateData` as of the last applied observation, without what only the state knows (`iterationState`).

use serde_json::{Value, json};

use super::list::ListFold;
use super::{Fold, StateWrites};
use crate::domain::facts::{RecordedMessage, Summary};
use crate::domain::state::{A2aWait, OpenSuspension, PendingA2ATasks};
use crate::history::ShownPlan;

impl Fold {
    /// Continues from a view, that of a core or one made by [`Fold::view`]. From there on it provides whole lists only.
    pub fn of_view(view: &Value) -> serde_json::Result<Self> {
        ShownPlan::of(view).map(Self::of_plan)
    }

    /// The same, from the plan part of a view.
    pub fn of_plan(begun: ShownPlan) -> Self {
        Self {
            intent: begun.intent,
            title: begun.title,
            plan: begun.plan,
            plan_version: begun.plan_version,
            list: ListFold::new(&begun.todo_list, begun.step_outputs),
            seq: begun.last_seq,
            ..Self::of_lists()
        }
    }

    /// Provides whole lists only, for a thread that has none yet.
    pub fn of_lists() -> Self {
        Self { lists_only: true, ..Self::default() }
    }

    /// The state as of the last observation that was applied: a `PESAgentStateData` with payload references.
    pub fn view(&self) -> Value {
        let suspensions: Vec<OpenSuspension> =
            self.open.suspensions.values().map(|open| self.list.calls.complete_suspension(open.clone())).collect();
        let waits: Vec<A2aWait> = self.open.waits.values().cloned().collect();
        let plan = if self.plan.is_null() { json!("") } else { self.plan.clone() };
        let mut view = json!({
            "intent": self.intent, "title": self.title, "plan": plan, "todoList": self.list.whole(),
            "currentStepId": self.list.current(), "isPaused": !suspensions.is_empty(),
            "stepOutputs": self.list.outputs(), "suspensions": suspensions, "a2aWaits": waits,
            "planVersion": self.plan_version, "lastSeq": self.seq, "status": self.open.status(), "runId": self.open.run,
        });
        if let Some(pending) = PendingA2ATasks::of(&waits) {
            view["pendingA2ATasks"] = json!(pending);
        }
        if let Some(oldest) = suspensions.first() {
            view["suspension"] = json!(oldest);
        }
        view
    }

    /// The conversation, in the order of its contexts; without the messages of queued runs.
    pub fn messages(&self) -> &[RecordedMessage] {
        &self.messages
    }

    /// The writes that the application's state consists of; `None`: the log does not hold all that was written.
    pub fn agent_state(&self) -> Option<StateWrites> {
        self.written.writes()
    }

    /// The summary that prompts show in place of the oldest messages, if there is one.
    pub fn summary(&self) -> Option<&Summary> {
        self.summary.as_ref()
    }
}
