//! A plan's item in the form in which front ends show it.

use serde_json::{Value, json};

use crate::domain::plan::{ItemStatus, TodoItem};

#[derive(Clone, Debug)]
pub(super) struct ShownItem {
    pub(super) id: String,
    description: String,
    pub(super) status: ItemStatus,
    dependencies: Vec<String>,
    pub(super) result: Option<Value>,
}

impl ShownItem {
    pub(super) fn of(item: &TodoItem) -> Self {
        Self {
            id: item.id.to_string(),
            description: item.description.clone(),
            status: item.status,
            dependencies: item.dependencies.iter().map(ToString::to_string).collect(),
            result: item.result.clone(),
        }
    }

    /// Everything but the result.
    pub(super) fn outline(&self) -> Value {
        json!({
            "id": self.id, "description": self.description, "status": self.status, "dependencies": self.dependencies,
        })
    }

    pub(super) fn whole(&self) -> Value {
        let mut shown = self.outline();
        if let Some(result) = &self.result {
            shown["result"] = result.clone();
        }
        shown
    }
}
