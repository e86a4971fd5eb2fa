//! The todo list, rebuilt change by change.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::calls::ItemCalls;
use super::size;
use crate::domain::Millis;
use crate::domain::facts::ItemStatusChangeBody;
use crate::domain::ids::ItemId;
use crate::domain::plan::{ItemStatus, StepOutputEntry, TodoItem, TodoItemChange};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ListFold {
    /// In execution order.
    items: IndexMap<ItemId, TodoItem>,
    outputs: IndexMap<ItemId, StepOutputEntry>,
    pub(super) calls: ItemCalls,
}

impl ListFold {
    pub(super) fn new(items: &[TodoItem], outputs: IndexMap<ItemId, StepOutputEntry>) -> Self {
        let calls = ItemCalls::of(items);
        let mut items: IndexMap<ItemId, TodoItem> = items.iter().map(|item| (item.id.clone(), item.clone())).collect();
        items.values_mut().for_each(forget_calls);
        Self { items, outputs, calls }
    }

    pub(super) fn bytes(&self) -> usize {
        let items: usize = self.items.values().map(size::item).sum();
        items + self.outputs.values().map(size::output).sum::<usize>() + self.calls.bytes()
    }

    pub(super) fn items(&self) -> Vec<TodoItem> {
        self.items.values().cloned().collect()
    }

    /// The items; those that are not settled have their calls so far.
    pub(super) fn whole(&self) -> Vec<TodoItem> {
        self.items.values().map(|item| self.calls.complete(item.clone())).collect()
    }

    pub(super) fn outputs(&self) -> &IndexMap<ItemId, StepOutputEntry> {
        &self.outputs
    }

    /// The first item that is in progress or waiting.
    pub(super) fn current(&self) -> Option<&ItemId> {
        let is_one = |item: &&TodoItem| match item.status {
            ItemStatus::InProgress | ItemStatus::Waiting => true,
            ItemStatus::Pending | ItemStatus::Completed | ItemStatus::Failed | ItemStatus::Cancelled => false,
        };
        self.items.values().find(is_one).map(|item| &item.id)
    }

    /// Applies recorded changes; returns them with the items as they were before and are after.
    pub(super) fn change(&mut self, changes: &[TodoItemChange]) -> Vec<TodoItemChange> {
        changes.iter().map(|change| self.change_one(change)).collect()
    }

    fn change_one(&mut self, change: &TodoItemChange) -> TodoItemChange {
        let (mut whole, id) = (change.clone(), &change.item_id);
        let before = self.items.get(id).cloned();
        match &change.item {
            Some(item) => {
                let mut item = with_calls(item.clone(), before.as_ref());
                forget_calls(&mut item);
                if !item.status.is_settled() {
                    self.outputs.shift_remove(id);
                }
                whole.item = Some(item.clone());
                self.items.insert(id.clone(), item);
            }
            None => {
                self.items.shift_remove(id);
                self.outputs.shift_remove(id);
                self.calls.forget(id);
            }
        }
        whole.previous_item = before.or(whole.previous_item);
        whole
    }

    /// Puts the items in this order; those that it does not name stay at the end.
    pub(super) fn reorder(&mut self, ids: &[ItemId]) {
        if ids.is_empty() {
            return;
        }
        let mut rest: IndexMap<ItemId, Option<TodoItem>> =
            std::mem::take(&mut self.items).into_iter().map(|(id, item)| (id, Some(item))).collect();
        for id in ids {
            if let Some(item) = rest.get_mut(id).and_then(Option::take) {
                self.items.insert(id.clone(), item);
            }
        }
        self.items.extend(rest.into_iter().filter_map(|(id, item)| Some((id, item?))));
    }

    pub(super) fn contains(&self, id: &ItemId) -> bool {
        self.items.contains_key(id)
    }

    /// Begins the list of a run without a plan: its only item, of which the log has just the changes of its status.
    pub(super) fn begin_without_plan(&mut self, id: &ItemId, description: String, at: Millis) {
        *self = Self::default();
        self.items.insert(id.clone(), TodoItem::new(id.clone(), description, at));
    }

    /// Applies a recorded change of a listed item's status.
    pub(super) fn apply_status_change(&mut self, body: &ItemStatusChangeBody) {
        let (id, changed) = (&body.item_id, &body.item);
        let Some(item) = self.items.get_mut(id) else { return };
        if let (true, Some(output)) = (item.description.is_empty(), &body.step_output) {
            item.description.clone_from(&output.description);
        }
        item.status = changed.status;
        item.updated_timestamp = changed.updated_timestamp;
        item.reason.clone_from(&changed.reason);
        if changed.status == ItemStatus::InProgress {
            item.validation_status = None;
        }
        overwrite(&mut item.run_id, &changed.run_id);
        overwrite(&mut item.result, &changed.result);
        overwrite(&mut item.validation_status, &changed.validation_status);
        item.other.extend(changed.other.clone());
        for (had, has) in
            [(&mut item.tool_calls, &changed.tool_calls), (&mut item.actual_tool_calls, &changed.actual_tool_calls)]
        {
            if !has.is_empty() {
                had.clone_from(has);
            }
        }
        if !changed.tool_results.is_empty() {
            item.tool_results.clone_from(&changed.tool_results);
        }
        forget_calls(item);
        match &body.step_output {
            Some(output) => _ = self.outputs.insert(id.clone(), output.clone()),
            None => _ = self.outputs.shift_remove(id),
        }
    }
}

fn overwrite<T: Clone>(had: &mut Option<T>, has: &Option<T>) {
    if has.is_some() {
        had.clone_from(has);
    }
}

/// The calls of an item that is not settled are recorded one by one.
fn forget_calls(item: &mut TodoItem) {
    if !item.status.is_settled() {
        item.tool_calls.clear();
        item.actual_tool_calls.clear();
        item.tool_results.clear();
    }
}

/// A recorded change of the plan leaves the item's calls out.
fn with_calls(mut item: TodoItem, before: Option<&TodoItem>) -> TodoItem {
    let Some(before) = before else { return item };
    if item.tool_calls.is_empty() {
        item.tool_calls.clone_from(&before.tool_calls);
    }
    if item.actual_tool_calls.is_empty() {
        item.actual_tool_calls.clone_from(&before.actual_tool_calls);
    }
    if item.tool_results.is_empty() {
        item.tool_results.clone_from(&before.tool_results);
    }
    item
}
