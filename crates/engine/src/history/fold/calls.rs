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
    /// How many of them came before the last reply.
    earlier: usize,
    results: BTreeMap<String, Value>,
}

impl Called {
    /// In the order in which the calls were made.
    fn results(&self, made: &[Value]) -> Vec<Value> {
        made.iter().filter_map(|call| self.results.get(call["callId"].as_str()?)).cloned().collect()
    }
}

impl Calls {
    /// What a whole list tells of settled items: they may be begun again.
    pub(super) fn of(items: &[Value]) -> Self {
        let each = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let called = items.iter().filter_map(|item| {
            let (made, results) = (each(&item["toolCalls"]), each(&item["toolResults"]));
            let by_id = |result: Value| Some((result["callId"].as_str()?.to_owned(), result));
            let id = item["id"].as_str().filter(|_| !made.is_empty())?;
            let results = results.into_iter().filter_map(by_id).collect();
            Some((id.to_owned(), Called { earlier: made.len(), made, results }))
        });
        Self(called.collect())
    }

    /// A `TOOL_CALL`.
    pub(super) fn made(&mut self, told: &Observation) {
        let Some(called) = self.entry(told) else { return };
        called.earlier = called.made.len();
        called.made.extend(told.content["toolCalls"].as_array().into_iter().flatten().cloned());
    }

    /// A `TOOL_EXECUTION`.
    pub(super) fn ended(&mut self, told: &Observation) {
        if let (Some(called), Some(id)) = (self.entry(told), told.content["callId"].as_str()) {
            called.results.insert(id.to_owned(), told.content.clone());
        }
    }

    pub(super) fn forget(&mut self, item: &str) {
        self.0.remove(item);
    }

    fn entry(&mut self, told: &Observation) -> Option<&mut Called> {
        Some(self.0.entry(told.parent_id.as_ref()?.to_string()).or_default())
    }

    /// The item with its calls, where it has none of its own.
    pub(super) fn complete(&self, mut item: Value) -> Value {
        if let Some(called) = item["id"].as_str().and_then(|id| self.0.get(id)) {
            for (key, all) in [("toolCalls", called.made.clone()), ("toolResults", called.results(&called.made))] {
                if item.get(key).is_none() && !all.is_empty() {
                    item[key] = all.into();
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
            suspension["partialToolResults"] = called.results(&called.made[called.earlier..]).into();
        }
        suspension
    }
}
