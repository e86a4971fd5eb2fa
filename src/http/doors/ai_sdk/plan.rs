//! The plan as the page shows it. It is sent as a whole each time, since the client replaces its data part.

use serde_json::{Value, json};

use crate::domain::facts::ItemStatusChangeBody;
use crate::domain::plan::TodoItem;
use crate::http::doors::shown_item::ShownItem;

#[derive(Clone, Debug, Default)]
pub(super) struct ShownPlan {
    title: Option<String>,
    version: i64,
    items: Vec<ShownItem>,
    /// The plan as it was sent last.
    last_sent: Option<Value>,
}

impl ShownPlan {
    pub(super) fn set_title(&mut self, title: &str) {
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

    /// The plan, if it has changed since it was sent last. A plan without items is an answer, which is sent as the
    /// answer's text.
    pub(super) fn take_changed(&mut self) -> Option<Value> {
        if self.items.is_empty() {
            return None;
        }
        let items: Vec<Value> = self.items.iter().map(ShownItem::outline).collect();
        let data = json!({ "title": self.title, "planVersion": self.version, "todoList": items });
        if self.last_sent.as_ref() == Some(&data) {
            return None;
        }
        self.last_sent = Some(data.clone());
        Some(data)
    }

    /// The client may have another version.
    pub(super) fn forget_sent(&mut self) {
        self.last_sent = None;
    }
}
