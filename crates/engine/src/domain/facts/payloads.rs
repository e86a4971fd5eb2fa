//! Inlines payloads in facts: knows which members may be a reference, or contain one.

use serde_json::{Map, Value};

use super::{Fact, RecordedMessage};
use crate::domain::payload::{self, Payloads};
use crate::domain::plan::{StepOutputEntry, TodoItem, TodoItemChange};
use crate::domain::tool::{ToolCall, ToolResult};

impl Fact {
    /// The fact with its payloads inlined.
    #[must_use]
    pub fn inlined(mut self, payloads: &Payloads) -> Self {
        self.replace_values(&mut |value| *value = payload::inline(value.take(), payloads));
        self
    }

    fn replace_values(&mut self, put: &mut impl FnMut(&mut Value)) {
        match self {
            Fact::RunStarted(body) => {
                put(&mut body.query);
                message(&mut body.message, put);
            }
            Fact::Plan(body) => {
                put(&mut body.plan);
                put(&mut body.raw_output);
                body.changes.iter_mut().flatten().for_each(|one| change(one, put));
                body.todo_list.iter_mut().flatten().for_each(|one| item(one, put));
                body.step_outputs.iter_mut().flatten().for_each(|(_, one)| output(one, put));
            }
            Fact::PlanUpdate(body) => {
                body.plan.iter_mut().for_each(&mut *put);
                body.changes.iter_mut().flatten().for_each(|one| change(one, put));
            }
            Fact::ItemStatusChange(body) => {
                body.step_output.iter_mut().for_each(|one| output(one, put));
                let set = &mut body.item;
                set.result.iter_mut().for_each(&mut *put);
                calls(set.tool_calls.iter_mut().chain(&mut set.actual_tool_calls), put);
                results(&mut set.tool_results, put);
                others(&mut set.other, put);
            }
            Fact::LlmStreamEnd(body) => {
                put(&mut body.text);
                body.thinking.iter_mut().for_each(put);
            }
            Fact::Thoughts(body) => put(&mut body.text),
            Fact::ToolCall(body) => calls(&mut body.tool_calls, put),
            Fact::ToolExecution(body) => result(body, put),
            Fact::AgentSuspended(body) => {
                body.tool_input.iter_mut().chain(&mut body.plan).for_each(&mut *put);
                others(&mut body.other, put);
            }
            Fact::A2aTask(body) => others(&mut body.other, put),
            Fact::StateUpdate(body) => {
                body.message.iter_mut().chain(&mut body.messages).for_each(|one| message(one, put));
                body.data.iter_mut().chain(&mut body.patch).for_each(&mut *put);
                body.summary.iter_mut().for_each(|summary| put(&mut summary.text));
            }
            Fact::FinalResponse(body) => {
                body.ui_metadata.iter_mut().for_each(&mut *put);
                message(&mut body.message, put);
            }
            Fact::Intent(_)
            | Fact::Title(_)
            | Fact::LlmStreamStart(_)
            | Fact::LlmStreamMetadata(_)
            | Fact::LlmStreamError(_)
            | Fact::AgentResumed(_)
            | Fact::SuspensionTimeout(_)
            | Fact::Synthesis(_)
            | Fact::Error(_)
            | Fact::RunFinished(_) => {}
        }
    }
}

fn message(message: &mut RecordedMessage, put: &mut impl FnMut(&mut Value)) {
    put(&mut message.content);
    message.metadata.iter_mut().for_each(|metadata| others(metadata, put));
}

fn change(change: &mut TodoItemChange, put: &mut impl FnMut(&mut Value)) {
    change.item.iter_mut().chain(change.previous_item.iter_mut()).for_each(|one| item(one, put));
    others(&mut change.other, put);
}

fn item(item: &mut TodoItem, put: &mut impl FnMut(&mut Value)) {
    item.result.iter_mut().chain(&mut item.thoughts).for_each(&mut *put);
    calls(item.tool_calls.iter_mut().chain(&mut item.actual_tool_calls), put);
    results(&mut item.tool_results, put);
    others(&mut item.other, put);
}

fn output(output: &mut StepOutputEntry, put: &mut impl FnMut(&mut Value)) {
    output.raw_result.iter_mut().for_each(&mut *put);
    results(&mut output.tool_results, put);
    others(&mut output.other, put);
}

fn calls<'c>(calls: impl IntoIterator<Item = &'c mut ToolCall>, put: &mut impl FnMut(&mut Value)) {
    for call in calls {
        put(&mut call.arguments);
        others(&mut call.other, put);
    }
}

fn results(results: &mut [ToolResult], put: &mut impl FnMut(&mut Value)) {
    results.iter_mut().for_each(|one| result(one, put));
}

fn result(result: &mut ToolResult, put: &mut impl FnMut(&mut Value)) {
    result.output.iter_mut().chain(&mut result.metadata).for_each(&mut *put);
    others(&mut result.other, put);
}

fn others(members: &mut Map<String, Value>, put: &mut impl FnMut(&mut Value)) {
    members.values_mut().for_each(put);
}
