//! `PESAgentStateData` as of the last observation told, without what only the state knows (`iterationState`).

use serde_json::{Value, json};

use super::Fold;
use super::list::List;
use crate::history::view::pending;

impl Fold {
    /// Goes on from a view, that of a core or one made by [`Fold::view`], and tells whole lists from there.
    pub fn of_view(view: &Value) -> Self {
        let word = |key: &str| view[key].as_str().unwrap_or_default().to_owned();
        Self {
            intent: word("intent"),
            title: word("title"),
            plan: view["plan"].clone(),
            plan_version: view["planVersion"].as_i64().unwrap_or_default(),
            list: List::new(&view["todoList"], view.get("stepOutputs")),
            seq: view["lastSeq"].as_i64().unwrap_or_default(),
            lists_only: true,
            ..Self::default()
        }
    }

    pub fn view(&self) -> Value {
        let suspensions: Vec<Value> =
            self.open.suspensions.values().map(|open| self.list.calls.ask(open.clone())).collect();
        let waits: Vec<Value> = self.open.waits.values().cloned().collect();
        let pending = pending(&waits);
        let plan = if self.plan.is_null() { json!("") } else { self.plan.clone() };
        let mut view = json!({
            "intent": self.intent, "title": self.title, "plan": plan, "todoList": self.list.whole(),
            "currentStepId": self.list.first(["in_progress", "waiting"]), "isPaused": !suspensions.is_empty(),
            "stepOutputs": self.list.outputs(), "suspensions": suspensions, "a2aWaits": waits,
            "planVersion": self.plan_version, "lastSeq": self.seq, "status": self.open.status(), "runId": self.open.run,
        });
        if let Some(pending) = pending {
            view["pendingA2ATasks"] = pending;
        }
        if let Some(oldest) = suspensions.first() {
            view["suspension"] = oldest.clone();
        }
        view
    }

    /// The conversation, in the order of its contexts; without what waited in the queue.
    pub fn messages(&self) -> &[Value] {
        &self.messages
    }

    /// The writes of the application's state that it consists of, for [`agent_state`](super::agent_state); `None`: the log
    /// does not tell what was written.
    pub fn agent_state(&self) -> Option<Value> {
        self.written.told()
    }

    /// What prompts tell in place of the oldest messages, if anything.
    pub fn summary(&self) -> Option<&Value> {
        self.summary.as_ref()
    }
}
