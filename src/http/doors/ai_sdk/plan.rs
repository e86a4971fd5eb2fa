//! The plan as the page shows it: whole each time, since the client replaces what it has.

use serde_json::{Value, json};

use crate::domain::facts::ItemStatusChangeBody;
use crate::domain::plan::TodoItem;
use crate::http::doors::shown_item::ShownItem;

#[derive(Clone, Debug, Default)]
pub(super) struct ShownPlan {
    title: Option<String>,
    version: i64,
    items: Vec<ShownItem>,
    /// What was told last.
    shown: Option<Value>,
}

impl ShownPlan {
    pub(super) fn name(&mut self, title: &str) {
        self.title = Some(title.to_owned());
    }

    pub(super) fn replace(&mut self, version: i64, items: &[TodoItem]) {
        self.version = version;
        self.items = items.iter().map(ShownItem::of).collect();
    }

    pub(super) fn change(&mut self, change: &ItemStatusChangeBody) {
        if let Some(item) = self.items.iter_mut().find(|item| item.id == change.item_id.as_str()) {
            item.status = change.status;
        }
    }

    /// The plan, if it was not told so before. One without items is an answer, which says itself.
    pub(super) fn news(&mut self) -> Option<Value> {
        if self.items.is_empty() {
            return None;
        }
        let items: Vec<Value> = self.items.iter().map(ShownItem::outline).collect();
        let data = json!({ "title": self.title, "planVersion": self.version, "todoList": items });
        if self.shown.as_ref() == Some(&data) {
            return None;
        }
        self.shown = Some(data.clone());
        Some(data)
    }

    /// The client may have another.
    pub(super) fn forget_shown(&mut self) {
        self.shown = None;
    }
}
