//! What was called for items that go on: lists do not tell it before they are settled.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::domain::observation::Observation;

/// By item, and then in the order of the calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Calls(BTreeMap<String, Called>);

#[derive(Clone, Debug, Default, PartialEq)]
struct Called {
    made: Vec<Value>,
    results: Vec<Value>,
    /// Those of the last reply.
    batch: Vec<Value>,
}

impl Calls {
    /// A `TOOL_CALL`.
    pub(super) fn made(&mut self, told: &Observation) {
        let Some(called) = self.of(told) else { return };
        called.batch = told.content["toolCalls"].as_array().cloned().unwrap_or_default();
        called.made.extend(called.batch.iter().cloned());
    }

    /// A `TOOL_EXECUTION`.
    pub(super) fn ended(&mut self, told: &Observation) {
        if let Some(called) = self.of(told) {
            called.results.push(told.content.clone());
        }
    }

    fn of(&mut self, told: &Observation) -> Option<&mut Called> {
        Some(self.0.entry(told.parent_id.as_ref()?.to_string()).or_default())
    }

    /// The item with its calls, where it has none of its own.
    pub(super) fn complete(&self, mut item: Value) -> Value {
        if let Some(called) = item["id"].as_str().and_then(|id| self.0.get(id)) {
            for (key, all) in [("toolCalls", &called.made), ("toolResults", &called.results)] {
                if item.get(key).is_none() && !all.is_empty() {
                    item[key] = all.iter().cloned().collect();
                }
            }
        }
        item
    }

    /// The suspension with its call, and with what the others of its reply brought.
    pub(super) fn ask(&self, mut suspension: Value) -> Value {
        if suspension["callId"].is_string() && suspension["toolName"].is_string() {
            let [call, tool, arguments] = ["callId", "toolName", "toolInput"].map(|key| suspension[key].clone());
            suspension["toolCall"] = json!({ "callId": call, "toolName": tool, "arguments": arguments });
        }
        if let Some(called) = suspension["itemId"].as_str().and_then(|id| self.0.get(id)) {
            let is_beside = |result: &&Value| called.batch.iter().any(|call| call["callId"] == result["callId"]);
            suspension["partialToolResults"] = called.results.iter().filter(is_beside).cloned().collect();
        }
        suspension
    }
}
