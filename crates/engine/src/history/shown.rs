//! The plan part of a view.

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;

use crate::domain::ids::ItemId;
use crate::domain::plan::{StepOutputEntry, TodoItem};

/// The plan in a `PESAgentStateData`. The view of a core without plans has none of its members.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ShownPlan {
    pub intent: String,
    pub title: String,
    /// The text, or a reference to it.
    pub plan: Value,
    pub plan_version: i64,
    /// In execution order.
    pub todo_list: Vec<TodoItem>,
    pub step_outputs: IndexMap<ItemId, StepOutputEntry>,
    pub last_seq: i64,
}

impl ShownPlan {
    pub fn of(view: &Value) -> serde_json::Result<Self> {
        Self::deserialize(view)
    }
}
