//! The approximate memory that facts take, in bytes.

use serde_json::Value;

use crate::domain::facts::RecordedMessage;
use crate::domain::plan::{StepOutputEntry, TodoItem, TodoItemChange};
use crate::domain::state::OpenSuspension;
use crate::domain::tool::{ToolCall, ToolResult};

pub(super) fn value(value: &Value) -> usize {
    const MEMBER: usize = 64;
    size_of::<Value>()
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(self::value).sum(),
            Value::Object(members) => {
                members.iter().map(|(name, value)| MEMBER + name.len() + self::value(value)).sum()
            }
        }
}

pub(super) fn item(item: &TodoItem) -> usize {
    let texts = item.description.len()
        + item.expected_outcome.as_ref().map_or(0, String::len)
        + item.reason.as_ref().map_or(0, String::len)
        + item.required_tools.iter().map(|tool| size_of::<String>() + tool.len()).sum::<usize>();
    let calls: usize = item.tool_calls.iter().chain(&item.actual_tool_calls).map(call).sum();
    let values = item.thoughts.iter().chain(&item.result).chain(item.other.values()).map(value).sum::<usize>();
    size_of::<TodoItem>() + texts + calls + values + item.tool_results.iter().map(result).sum::<usize>()
}

pub(super) fn output(output: &StepOutputEntry) -> usize {
    let texts = output.description.len() + output.summary.as_ref().map_or(0, String::len);
    let raw = output.raw_result.as_ref().map_or(0, value);
    size_of::<StepOutputEntry>() + texts + raw + output.tool_results.iter().map(result).sum::<usize>()
}

pub(super) fn change(change: &TodoItemChange) -> usize {
    size_of::<TodoItemChange>() + change.item.iter().chain(&change.previous_item).map(item).sum::<usize>()
}

pub(super) fn message(message: &RecordedMessage) -> usize {
    let metadata = message.metadata.iter().flatten().map(|(name, member)| name.len() + value(member)).sum::<usize>();
    size_of::<RecordedMessage>() + value(&message.content) + metadata
}

pub(super) fn suspension(open: &OpenSuspension) -> usize {
    let texts = open.question.message.len() + open.tool_call.as_ref().map_or(0, call);
    let results: usize = open.partial_tool_results.iter().flatten().map(result).sum();
    size_of::<OpenSuspension>() + texts + open.question.tool_input.as_ref().map_or(0, value) + results
}

pub(super) fn call(call: &ToolCall) -> usize {
    size_of::<ToolCall>() + call.tool_name.len() + value(&call.arguments)
}

pub(super) fn result(result: &ToolResult) -> usize {
    let error = result.error.as_ref().map_or(0, |error| error.message.len());
    let values = result.output.iter().chain(&result.metadata).map(value).sum::<usize>();
    size_of::<ToolResult>() + result.tool_name.len() + error + values
}
