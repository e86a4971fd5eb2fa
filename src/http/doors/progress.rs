//! What a run does besides its answer, as lines of text: for wire formats that can show an agent's reasoning but no
//! plan and no tool calls.

use std::collections::HashMap;

use crate::domain::facts::{Fact, ItemStatusChangeBody, WholePlan};
use crate::domain::ids::ItemId;
use crate::domain::plan::{ItemStatus, TodoItem};
use crate::domain::tool::ToolCall;
use crate::http::doors::frames::{DecodedObservation, ObservationContent};

/// How many characters of a call's arguments are shown.
const MAX_ARGUMENT_CHARS: usize = 120;

/// Remembers the descriptions of the plan's items.
#[derive(Clone, Debug, Default)]
pub(super) struct ProgressLines {
    title: Option<String>,
    items: HashMap<ItemId, String>,
}

impl ProgressLines {
    /// The lines for an observation, each with its newline. Empty if nothing is shown for it.
    pub(super) fn lines(&mut self, observation: &DecodedObservation) -> String {
        match &observation.content {
            ObservationContent::Plan(plan) => self.plan(plan),
            ObservationContent::PlanUpdate(update) => {
                self.remember_items(&update.todo_list);
                String::new()
            }
            ObservationContent::Fact(Fact::Title(body)) => {
                self.title = Some(body.title.clone());
                String::new()
            }
            ObservationContent::Fact(Fact::ItemStatusChange(change)) => self.item(change),
            ObservationContent::Fact(Fact::ToolCall(body)) => body.tool_calls.iter().map(call).collect(),
            ObservationContent::Fact(
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

    fn remember_items(&mut self, items: &[TodoItem]) {
        self.items.extend(items.iter().map(|item| (item.id.clone(), item.description.clone())));
    }

    /// The title and the list of items. A plan without items is an answer, which is sent as the answer's text.
    fn plan(&mut self, plan: &WholePlan) -> String {
        self.remember_items(&plan.todo_list);
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
    let shown: String = arguments.chars().take(MAX_ARGUMENT_CHARS).collect();
    let more = if shown.len() < arguments.len() { "…" } else { "" };
    format!("· {}({shown}{more})\n", call.tool_name)
}
