//! What a run does besides its answer, as lines of text: for wires that show an agent's reasoning and nothing else of it.

use std::collections::HashMap;

use crate::domain::facts::{Fact, ItemStatusChangeBody, WholePlan};
use crate::domain::ids::ItemId;
use crate::domain::plan::{ItemStatus, TodoItem};
use crate::domain::tool::ToolCall;
use crate::http::doors::told::{Says, ToldFact};

/// Of arguments as many characters are shown.
const ARGUMENTS: usize = 120;

/// Knows what the items are called.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    title: Option<String>,
    items: HashMap<ItemId, String>,
}

impl Progress {
    /// The lines that an observation comes to, each with its end; empty: nothing is shown of it.
    pub(super) fn lines(&mut self, told: &ToldFact) -> String {
        match &told.says {
            Says::Plan(plan) => self.plan(plan),
            Says::PlanUpdate(update) => {
                self.learn(&update.todo_list);
                String::new()
            }
            Says::Fact(Fact::Title(body)) => {
                self.title = Some(body.title.clone());
                String::new()
            }
            Says::Fact(Fact::ItemStatusChange(change)) => self.item(change),
            Says::Fact(Fact::ToolCall(body)) => body.tool_calls.iter().map(call).collect(),
            Says::Fact(
                Fact::RunStarted(_)
                | Fact::Intent(_)
                | Fact::Plan(_)
                | Fact::PlanUpdate(_)
                | Fact::LlmStreamStart(_)
                | Fact::LlmStreamMetadata(_)
                | Fact::LlmStreamEnd(_)
                | Fact::LlmStreamError(_)
                | Fact::Thoughts(_)
                | Fact::ToolExecution(_)
                | Fact::AgentSuspended(_)
                | Fact::AgentResumed(_)
                | Fact::SuspensionTimeout(_)
                | Fact::A2aTask(_)
                | Fact::StateUpdate(_)
                | Fact::Synthesis(_)
                | Fact::FinalResponse(_)
                | Fact::Error(_)
                | Fact::RunFinished(_),
            ) => String::new(),
        }
    }

    fn learn(&mut self, items: &[TodoItem]) {
        self.items.extend(items.iter().map(|item| (item.id.clone(), item.description.clone())));
    }

    /// The title and the list; a plan without items is an answer, and that says itself.
    fn plan(&mut self, plan: &WholePlan) -> String {
        self.learn(&plan.todo_list);
        if plan.todo_list.is_empty() {
            return String::new();
        }
        let title = self.title.as_ref().map(|title| format!("{title}\n")).unwrap_or_default();
        let items: String = plan.todo_list.iter().map(|item| format!("- {}\n", item.description)).collect();
        format!("{title}{items}")
    }

    fn item(&self, change: &ItemStatusChangeBody) -> String {
        let name = self.items.get(&change.item_id).map_or(change.item_id.as_str(), String::as_str);
        match (change.status, &change.reason) {
            (ItemStatus::InProgress, _) if change.from == ItemStatus::Pending => format!("▸ {name}\n"),
            (ItemStatus::Completed, _) => format!("✓ {name}\n"),
            (ItemStatus::Failed | ItemStatus::Cancelled, Some(reason)) => format!("✗ {name}: {reason}\n"),
            (ItemStatus::Failed | ItemStatus::Cancelled, None) => format!("✗ {name}\n"),
            (ItemStatus::Pending | ItemStatus::InProgress | ItemStatus::Waiting, _) => String::new(),
        }
    }
}

fn call(call: &ToolCall) -> String {
    let arguments = call.arguments.to_string();
    let shown: String = arguments.chars().take(ARGUMENTS).collect();
    let more = if shown.len() < arguments.len() { "…" } else { "" };
    format!("· {}({shown}{more})\n", call.tool_name)
}
