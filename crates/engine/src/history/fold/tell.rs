//! Taking observations in, and giving them back whole.

use serde_json::{Map, Value};

use super::Fold;
use super::list::List;
use crate::domain::observation::{Observation, ObservationType};

impl Fold {
    /// Takes in the next observation; returns its content as readers see it.
    pub fn tell(&mut self, told: &Observation) -> Value {
        self.seq = told.seq;
        let content = &told.content;
        if self.lists_only && !Self::LISTED.contains(&told.kind) {
            return content.clone();
        }
        self.open.tell(told);
        let mut whole = None;
        match told.kind {
            ObservationType::Intent => self.intent = word(content, "intent"),
            ObservationType::Title => self.title = word(content, "title"),
            ObservationType::Plan => whole = Some(self.planned(content)),
            ObservationType::PlanUpdate => whole = Some(self.updated(content, told.timestamp)),
            ObservationType::ItemStatusChange => self.list.moved(content),
            ObservationType::RunStarted | ObservationType::FinalResponse => self.said(content),
            ObservationType::StateUpdate => self.state_updated(content),
            ObservationType::ToolCall => self.list.calls.made(told),
            ObservationType::ToolExecution => self.list.calls.ended(told),
            ObservationType::LlmStreamStart
            | ObservationType::LlmStreamMetadata
            | ObservationType::LlmStreamEnd
            | ObservationType::LlmStreamError
            | ObservationType::Thoughts
            | ObservationType::AgentSuspended
            | ObservationType::AgentResumed
            | ObservationType::SuspensionTimeout
            | ObservationType::A2aTask
            | ObservationType::Synthesis
            | ObservationType::Error
            | ObservationType::RunFinished => {}
        }
        whole.unwrap_or_else(|| content.clone())
    }

    /// A `PLAN` holds changes, or a whole list where a history begins.
    fn planned(&mut self, content: &Value) -> Value {
        self.plan = content["plan"].clone();
        self.plan_version = version(content, self.plan_version);
        match content.get("todoList") {
            Some(list) => self.list = List::new(list, content.get("stepOutputs")),
            None => self.changed = self.list.change(array(content, "changes")),
        }
        let mut whole = Map::new();
        whole.insert("plan".into(), self.plan.clone());
        whole.insert("planVersion".into(), self.plan_version.into());
        whole.insert("todoList".into(), self.list.items());
        whole.insert("rawOutput".into(), content["rawOutput"].clone());
        Value::Object(whole)
    }

    /// A `PLAN_UPDATE` without changes tells where those of the `PLAN` before it came from.
    fn updated(&mut self, content: &Value, timestamp: i64) -> Value {
        self.plan_version = version(content, self.plan_version);
        let plan = content.get("plan").filter(|plan| !plan.is_null());
        self.plan = plan.unwrap_or(&self.plan).clone();
        let changes = match content.get("changes") {
            Some(Value::Array(changes)) => self.list.change(changes),
            Some(_) | None => std::mem::take(&mut self.changed),
        };
        self.list.reorder(array(content, "order"));
        let mut whole = Map::new();
        whole.insert("planVersion".into(), self.plan_version.into());
        whole.insert("source".into(), content["source"].clone());
        whole.extend(plan.map(|plan| ("plan".to_owned(), plan.clone())));
        whole.insert("todoList".into(), self.list.items());
        whole.insert("changes".into(), sorted(changes, timestamp));
        Value::Object(whole)
    }

    fn state_updated(&mut self, content: &Value) {
        self.written.tell(content);
        if !is_queued(content) {
            self.said(content);
            self.summary = content.get("summary").cloned().or(self.summary.take());
        }
    }

    /// A message; a queued run's is told when it starts, and a steered one at once.
    fn said(&mut self, content: &Value) {
        self.messages.extend(content.get("message").cloned());
    }
}

/// The contract's `TodoListChanges`: all of them, then by kind.
fn sorted(changes: Vec<Value>, timestamp: i64) -> Value {
    let of = |kind: &str| changes.iter().filter(|change| change["type"] == kind).cloned().collect::<Value>();
    let (added, modified, removed) = (of("added"), of("modified"), of("removed"));
    let mut sorted = Map::new();
    sorted.insert("timestamp".into(), timestamp.into());
    sorted.insert("changes".into(), Value::Array(changes));
    sorted.insert("added".into(), added);
    sorted.insert("modified".into(), modified);
    sorted.insert("removed".into(), removed);
    Value::Object(sorted)
}

fn is_queued(content: &Value) -> bool {
    array(content, "keys").iter().any(|key| key == "queue")
}

fn word(content: &Value, key: &str) -> String {
    content[key].as_str().unwrap_or_default().to_owned()
}

fn version(content: &Value, before: i64) -> i64 {
    content["planVersion"].as_i64().unwrap_or(before)
}

fn array<'a>(content: &'a Value, key: &str) -> &'a [Value] {
    content[key].as_array().map(Vec::as_slice).unwrap_or_default()
}
