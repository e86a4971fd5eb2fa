//! The todo list, change by change.

use serde_json::{Map, Value, json};

use super::calls::Calls;

/// What lists tell of settled items alone.
const CALLS: [&str; 3] = ["toolCalls", "actualToolCalls", "toolResults"];

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct List {
    /// Items by id, in execution order.
    items: Map<String, Value>,
    outputs: Map<String, Value>,
    pub(super) calls: Calls,
}

impl List {
    pub(super) fn new(items: &Value, outputs: Option<&Value>) -> Self {
        let items = items.as_array().map(Vec::as_slice).unwrap_or_default();
        let by_id = |item: &Value| Some((id_of(item, "id")?, without_calls(item.clone())));
        Self {
            items: items.iter().filter_map(by_id).collect(),
            outputs: outputs.and_then(Value::as_object).cloned().unwrap_or_default(),
            calls: Calls::of(items),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let of = |members: &Map<String, Value>| members.values().map(super::bytes).sum::<usize>();
        of(&self.items) + of(&self.outputs)
    }

    pub(super) fn items(&self) -> Value {
        self.each().cloned().collect()
    }

    /// The items, those that go on with what was called for them so far.
    pub(super) fn whole(&self) -> Value {
        self.each().map(|item| self.calls.complete(item.clone())).collect()
    }

    fn each(&self) -> impl Iterator<Item = &Value> {
        self.items.values()
    }

    pub(super) fn outputs(&self) -> &Map<String, Value> {
        &self.outputs
    }

    /// The first item in one of these statuses.
    pub(super) fn first(&self, statuses: [&str; 2]) -> Value {
        let is_one = |item: &&Value| item["status"].as_str().is_some_and(|status| statuses.contains(&status));
        self.items.values().find(is_one).map_or(Value::Null, |item| item["id"].clone())
    }

    /// Applies recorded changes; gives them back with the items as they were before and are after.
    pub(super) fn change(&mut self, changes: &[Value]) -> Vec<Value> {
        changes.iter().map(|change| self.change_one(change)).collect()
    }

    fn change_one(&mut self, change: &Value) -> Value {
        let mut whole = change.clone();
        let Some(id) = id_of(change, "itemId") else { return whole };
        let before = self.items.get(&id).cloned();
        match change.get("item") {
            Some(item) => {
                let item = without_calls(with_calls(item.clone(), before.as_ref()));
                if !is_settled(&item) {
                    self.outputs.shift_remove(&id);
                }
                whole["item"] = item.clone();
                self.items.insert(id, item);
            }
            None => {
                self.items.shift_remove(&id);
                self.outputs.shift_remove(&id);
                self.calls.forget(&id);
            }
        }
        if let Some(before) = before {
            whole["previousItem"] = before;
        }
        whole
    }

    /// Puts the items in this order; those that it does not name stay at the end.
    pub(super) fn reorder(&mut self, ids: &[Value]) {
        if ids.is_empty() {
            return;
        }
        let mut rest = std::mem::take(&mut self.items);
        for id in ids.iter().filter_map(Value::as_str) {
            if let Some(item) = rest.get_mut(id).map(Value::take).filter(|item| !item.is_null()) {
                self.items.insert(id.to_owned(), item);
            }
        }
        self.items.extend(rest.into_iter().filter(|(_, item)| !item.is_null()));
    }

    /// A recorded change of an item's status.
    pub(super) fn moved(&mut self, content: &Value) {
        let Some(id) = id_of(content, "itemId") else { return };
        if !self.items.contains_key(&id) {
            // No plan named it: a core without plans began a run, and its list is this item.
            *self = Self::default();
        }
        let output = content.get("stepOutput");
        let new =
            || json!({ "id": id, "description": output.map_or(json!(""), |output| output["description"].clone()) });
        let item = self.items.entry(id.clone()).or_insert_with(new);
        let (Some(item), Some(changed)) = (item.as_object_mut(), content["item"].as_object()) else { return };
        item.shift_remove("reason");
        if changed.get("status").and_then(Value::as_str) == Some("in_progress") {
            item.shift_remove("validationStatus");
        }
        item.extend(changed.clone());
        let item = Value::Object(std::mem::take(item));
        self.items.insert(id.clone(), without_calls(item));
        match output {
            Some(output) => _ = self.outputs.insert(id, output.clone()),
            None => _ = self.outputs.shift_remove(&id),
        }
    }
}

fn id_of(value: &Value, key: &str) -> Option<String> {
    value.get(key)?.as_str().map(str::to_owned)
}

/// Of an item that goes on, what is called is told call by call.
fn without_calls(mut item: Value) -> Value {
    let is_open = !is_settled(&item);
    if let Some(fields) = item.as_object_mut().filter(|_| is_open) {
        CALLS.iter().for_each(|key| _ = fields.shift_remove(*key));
    }
    item
}

fn is_settled(item: &Value) -> bool {
    matches!(item["status"].as_str(), Some("completed" | "failed" | "cancelled"))
}

/// A change of the plan leaves out what was called for the item.
fn with_calls(mut item: Value, before: Option<&Value>) -> Value {
    for key in CALLS {
        if let (None, Some(calls)) = (item.get(key), before.and_then(|before| before.get(key))) {
            item[key] = calls.clone();
        }
    }
    item
}
