//! The plan part of a view.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;

use crate::domain::hitl::AskedQuestion;
use crate::domain::ids::{CallId, ItemId, RunId};
use crate::domain::plan::{StepOutputEntry, TodoItem};

/// The plan in a `PESAgentStateData`. The view of a core without plans has none of its members.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ShownPlan {
    /// What the user wants, as the planner understood it; empty without a plan.
    pub intent: String,
    /// The title of the plan; empty without one.
    pub title: String,
    /// The text, or a reference to it.
    pub plan: Value,
    /// Moves with the plan, not with the status of its items.
    pub plan_version: i64,
    /// In execution order.
    pub todo_list: Vec<TodoItem>,
    /// What its settled items left, by the item.
    pub step_outputs: IndexMap<ItemId, StepOutputEntry>,
    /// The seq of the newest observation that it includes.
    pub last_seq: i64,
    /// The active run.
    pub run_id: Option<RunId>,
    /// The calls that an open question held back: nothing of them was done. Known only of a plan that was read from a
    /// view.
    #[serde(skip)]
    pub held_back: Vec<CallId>,
    /// The items that a person edited by now, each with the planVersion of the last edit. Known only of a plan that another
    /// thread begins with.
    #[serde(skip)]
    pub edited: BTreeMap<ItemId, i64>,
}

impl ShownPlan {
    /// The plan part of a `PESAgentStateData`, which may have references to payloads.
    pub fn of(view: &Value) -> serde_json::Result<Self> {
        Ok(Self { held_back: held_back(view), ..Self::deserialize(view)? })
    }
}

fn held_back(view: &Value) -> Vec<CallId> {
    let open = view["suspensions"].as_array().into_iter().flatten();
    let questions = open.filter_map(|open| AskedQuestion::deserialize(open).ok());
    let holding = questions.filter(|open| open.kind.holds_call_back() && !open.while_running);
    holding.filter_map(|open| open.call_id).collect()
}
