//! Prompts that fit: what a model reads in one call is bounded. The oldest messages of the conversation are left out
//! first, then long results of other items are shortened; what the item's own loop said stays whole.

use serde_json::Value;

use super::state::ModelCall;
use crate::domain::message::ConversationMessage;
use crate::domain::model::ContextFit;
use crate::domain::payload::Payloads;
use crate::domain::prompt::PromptMessage;
use crate::domain::settings::RunSettings;
use crate::domain::tool::{ToolResult, ToolSpec};
use crate::engine::prompt::{StepResult, shortened, tokens};
use crate::engine::{Material, World};

/// What is always left of a result, in characters.
const LEAST: usize = 200;

/// What a prompt tells besides what it must.
#[derive(Clone, Copy)]
pub(super) struct Told<'a> {
    pub payloads: &'a Payloads,
    pub history: &'a [ConversationMessage],
    /// A longer result of another item is shortened, in characters.
    pub most: usize,
}

impl<'a> Told<'a> {
    pub fn whole(material: &'a Material) -> Self {
        Self { payloads: &material.payloads, history: &material.history, most: usize::MAX }
    }

    /// The same in so many tokens less, if that much can be left out.
    pub fn less(self, mut over: u64, results: &[StepResult]) -> (Self, ContextFit) {
        let left_out = self.history.iter().take_while(|message| {
            let is_over = over > 0;
            over = over.saturating_sub(tokens(&message.content));
            is_over
        });
        let left_out = left_out.count();
        let history = &self.history[left_out..];
        let values: Vec<u64> = results.iter().flat_map(values).map(|value| tokens(&text(value))).collect();
        let room = values.iter().sum::<u64>().saturating_sub(over);
        let most = match over {
            0 => usize::MAX,
            _ => (room as usize * 3 / values.len().max(1)).max(LEAST),
        };
        let shortened = values.iter().filter(|size| **size as usize > most / 3).count();
        (Self { history, most, ..self }, ContextFit { kept: history.len(), left_out, shortened })
    }
}

/// How many tokens the prompt of this call may have: three quarters of what the model reads, half of that after a prompt
/// that was too long. `None`: nobody knows.
pub(super) fn limit(world: &World<'_>, settings: &RunSettings, call: &ModelCall, size: u64) -> Option<u64> {
    let (provider, model) = settings.choice(call.choice)?;
    let window = world.models.window(provider, model);
    match call.tight {
        false => window.map(|window| window / 4 * 3),
        true => Some(window.map_or(size, |window| size.min(window / 4 * 3)) / 2),
    }
}

pub(super) fn size(messages: &[PromptMessage], tools: &[std::sync::Arc<ToolSpec>]) -> u64 {
    let said = messages.iter().map(|message| match message {
        PromptMessage::System { content } | PromptMessage::User { content } | PromptMessage::Tool { content, .. } => {
            tokens(content)
        }
        PromptMessage::Assistant { content, tool_calls, replay } => {
            let calls: u64 = tool_calls.iter().map(|call| tokens(&call.arguments.to_string())).sum();
            tokens(content) + calls + replay.as_ref().map_or(0, |replay| tokens(&replay.to_string()))
        }
    });
    said.sum::<u64>() + tools.iter().map(|tool| tokens(&tool.input_schema.to_string())).sum::<u64>()
}

/// Results with whatever is longer than that cut.
pub(super) fn cut(results: Vec<StepResult>, most: usize) -> Vec<StepResult> {
    let cut = |value: Value| {
        let whole = text(&value);
        if whole.len() <= most { value } else { Value::String(shortened(&whole, most, "")) }
    };
    let cut_tool = |tool: ToolResult| ToolResult { output: tool.output.map(cut), ..tool };
    let cut_result = |result: StepResult| StepResult {
        result: result.result.map(cut),
        tool_results: result.tool_results.into_iter().map(cut_tool).collect(),
        ..result
    };
    match most {
        usize::MAX => results,
        _ => results.into_iter().map(cut_result).collect(),
    }
}

fn values(result: &StepResult) -> impl Iterator<Item = &Value> {
    result.result.iter().chain(result.tool_results.iter().filter_map(|tool| tool.output.as_ref()))
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}
