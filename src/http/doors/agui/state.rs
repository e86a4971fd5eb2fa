//! The plan's state as AG-UI clients keep it: a snapshot at the start, then JSON patches. A patch of an item begins
//! with a `test` of the item's id.

use serde_json::{Value, json};

use crate::domain::facts::ItemStatusChangeBody;
use crate::domain::plan::{ItemStatus, TodoItem};
use crate::http::doors::shown_item::ShownItem;

#[derive(Clone, Debug, Default)]
pub(super) struct PlanState {
    intent: Option<String>,
    title: Option<String>,
    plan: Option<String>,
    version: i64,
    items: Vec<ShownItem>,
    current: Option<String>,
}

impl PlanState {
    pub(super) fn snapshot(&self, is_paused: bool) -> Value {
        json!({
            "intent": self.intent, "title": self.title, "plan": self.plan, "planVersion": self.version,
            "todoList": self.list(), "currentStepId": self.current, "isPaused": is_paused,
        })
    }

    /// The content of the plan's activity message. `None` if the plan has no items.
    pub(super) fn activity(&self) -> Option<Value> {
        (!self.items.is_empty()).then(|| json!({ "title": self.title, "todoList": self.list() }))
    }

    fn list(&self) -> Vec<Value> {
        self.items.iter().map(ShownItem::whole).collect()
    }

    pub(super) fn set_intent(&mut self, intent: &str) -> Value {
        self.intent = Some(intent.to_owned());
        json!([replace("/intent", intent)])
    }

    pub(super) fn set_title(&mut self, title: &str) -> Value {
        self.title = Some(title.to_owned());
        json!([replace("/title", title)])
    }

    pub(super) fn set_plan(&mut self, plan: Option<&str>, version: i64, items: &[TodoItem]) -> Value {
        self.version = version;
        self.items = items.iter().map(ShownItem::of).collect();
        let mut patch = vec![replace("/planVersion", version), replace("/todoList", self.list())];
        if let Some(plan) = plan {
            self.plan = Some(plan.to_owned());
            patch.push(replace("/plan", plan));
        }
        json!(patch)
    }

    /// The patches of the state and of the activity. `None` if there is no such item.
    pub(super) fn apply_status(&mut self, change: &ItemStatusChangeBody) -> Option<(Value, Value)> {
        let at = self.items.iter().position(|item| item.id == change.item_id.as_str())?;
        let item = &mut self.items[at];
        item.status = change.status;
        let mut list = vec![
            json!({ "op": "test", "path": format!("/todoList/{at}/id"), "value": item.id }),
            replace(&format!("/todoList/{at}/status"), json!(item.status)),
        ];
        if let Some(result) = &change.item.result {
            item.result = Some(result.clone());
            list.push(json!({ "op": "add", "path": format!("/todoList/{at}/result"), "value": result }));
        }
        let activity = json!(list);
        if change.status == ItemStatus::InProgress {
            self.current = Some(item.id.clone());
            list.push(replace("/currentStepId", item.id.clone()));
        }
        Some((json!(list), activity))
    }
}

fn replace(path: &str, value: impl Into<Value>) -> Value {
    json!({ "op": "replace", "path": path, "value": value.into() })
}
