//! A thread begins as a copy of another: what was completed is kept, what was not begins anew.

use serde_json::{Value, json};

use super::record::to_value;
use super::rows;
use super::state::{Definition, Item, Track};
use super::transition::{Handled, Taken, Transition};
use crate::domain::fault::{Code, Fault};
use crate::domain::message::ConversationMessage;
use crate::domain::observation::ObservationType;
use crate::domain::plan::{ItemStatus, TodoItem};
use crate::domain::thread::AgentState;

impl Transition<'_> {
    pub fn begin_as_copy(&mut self, state: Value, messages: Vec<ConversationMessage>, agent: AgentState) -> Handled {
        let list = state.get("todoList").cloned().unwrap_or_else(|| json!([]));
        let list: Vec<TodoItem> = serde_json::from_value(list)
            .map_err(|e| Fault::new(Code::Internal, format!("The copied plan cannot be read: {e}.")))?;
        let word = |key: &str| state.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        self.state.head.intent = word("intent");
        self.state.head.title = word("title");
        self.title = Some(self.state.head.title.clone()).filter(|title| !title.is_empty());
        self.state.head.plan = self.store("plan", Value::String(word("plan")));
        self.state.head.plan_version = state.get("planVersion").and_then(Value::as_i64).unwrap_or(0);
        let items: Vec<Item> = list.into_iter().enumerate().map(|(at, todo)| self.copied(at as i64, todo)).collect();
        for item in &items {
            self.definition_changed(&item.def.id);
        }
        self.state.list.rebuild(|list| *list = items);
        for mut message in messages {
            message.thread_id = self.state.thread_id.clone();
            let ord = self.ord();
            self.write_message(ord, &message);
        }
        if agent != AgentState::default() {
            self.rows.push(rows::agent_state(&agent));
            self.state.agent_state = agent;
        }
        self.record_copied();
        Ok(Taken::Yes)
    }

    fn copied(&mut self, ord: i64, todo: TodoItem) -> Item {
        let keeps = todo.status.is_settled();
        let result = todo.result.filter(|_| keeps).map(|result| self.store(format!("item-{}.result", todo.id), result));
        let def = Definition {
            id: todo.id,
            description: todo.description,
            dependencies: todo.dependencies,
            step_type: todo.step_type,
            required_tools: todo.required_tools,
            expected_outcome: todo.expected_outcome,
            tool_validation_mode: todo.tool_validation_mode,
            created: todo.created_timestamp,
            since: self.state.head.plan_version,
            edited: None,
        };
        let track = Track {
            status: if keeps { todo.status } else { ItemStatus::Pending },
            reason: todo.reason.filter(|_| keeps),
            result,
            validation: todo.validation_status.filter(|_| keeps),
            updated: todo.updated_timestamp,
            run: todo.run_id.filter(|_| keeps),
            ..Track::default()
        };
        Item { ord, def, track, calls: Vec::new(), turns: Vec::new() }
    }

    /// The base of the copy's own history: the whole list.
    fn record_copied(&mut self) {
        let list: Vec<TodoItem> = self.state.list.iter().map(super::view::todo_item).collect();
        let body = json!({
            "plan": self.state.head.plan, "planVersion": self.state.head.plan_version, "rawOutput": "",
            "todoList": to_value(&list),
        });
        self.record(ObservationType::Plan, None, "Plan copied", body);
    }
}
