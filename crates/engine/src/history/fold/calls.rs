//! The calls of items that are not settled: recorded changes contain calls of settled items only.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::size;
use crate::domain::facts::ToolCallBody;
use crate::domain::ids::{CallId, ItemId};
use crate::domain::plan::TodoItem;
use crate::domain::state::OpenSuspension;
use crate::domain::tool::{ToolCall, ToolResult};

/// By item, and then in the order of the calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ItemCalls(BTreeMap<ItemId, CallsOfItem>);

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct CallsOfItem {
    made: Vec<ToolCall>,
    /// How many of them were made before the last reply.
    earlier: usize,
    results: BTreeMap<CallId, ToolResult>,
}

impl CallsOfItem {
    /// In the order in which the calls were made.
    fn results(&self, made: &[ToolCall]) -> Vec<ToolResult> {
        made.iter().filter_map(|call| self.results.get(&call.call_id)).cloned().collect()
    }
}

impl ItemCalls {
    pub(super) fn bytes(&self) -> usize {
        let made = self.0.values().flat_map(|called| &called.made).map(size::call).sum::<usize>();
        made + self.0.values().flat_map(|called| called.results.values()).map(size::result).sum::<usize>()
    }

    /// The calls in a whole list, whose items may be begun again.
    pub(super) fn of(items: &[TodoItem]) -> Self {
        let called = items.iter().filter(|item| !item.tool_calls.is_empty()).map(|item| {
            let made = item.tool_calls.clone();
            let results = item.tool_results.iter().map(|result| (result.call_id.clone(), result.clone())).collect();
            (item.id.clone(), CallsOfItem { earlier: made.len(), made, results })
        });
        Self(called.collect())
    }

    /// A `TOOL_CALL` of the item.
    pub(super) fn add_calls(&mut self, item: &ItemId, body: &ToolCallBody) {
        let called = self.0.entry(item.clone()).or_default();
        called.earlier = called.made.len();
        called.made.extend(body.tool_calls.iter().cloned());
    }

    /// A `TOOL_EXECUTION` of the item.
    pub(super) fn add_result(&mut self, item: &ItemId, body: &ToolResult) {
        self.0.entry(item.clone()).or_default().results.insert(body.call_id.clone(), body.clone());
    }

    pub(super) fn forget(&mut self, item: &ItemId) {
        self.0.remove(item);
    }

    /// The item with its calls, where it has none of its own.
    pub(super) fn complete(&self, mut item: TodoItem) -> TodoItem {
        if let Some(called) = self.0.get(&item.id) {
            if item.tool_calls.is_empty() {
                item.tool_calls.clone_from(&called.made);
            }
            if item.tool_results.is_empty() {
                item.tool_results = called.results(&called.made);
            }
        }
        item
    }

    /// The suspension with its call, and with the results of the other calls of the same reply.
    pub(super) fn complete_suspension(&self, mut suspension: OpenSuspension) -> OpenSuspension {
        let asked = &suspension.question;
        if let (Some(call_id), Some(tool_name)) = (asked.call_id.clone(), asked.tool_name.clone()) {
            let arguments = asked.tool_input.clone().unwrap_or_default();
            suspension.tool_call = Some(ToolCall::new(call_id, tool_name, arguments));
        }
        if let Some(called) = suspension.item_id.as_ref().and_then(|id| self.0.get(id)) {
            suspension.partial_tool_results = Some(called.results(&called.made[called.earlier..]));
        }
        suspension
    }
}
