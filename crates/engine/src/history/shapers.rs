//! Who requested or edited the work that a thread has still to do, read from its stored head.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::domain::ids::ItemId;
use crate::step::{Row, RowKind};

#[derive(Default, Deserialize)]
#[serde(default)]
struct Stored {
    shapers: Vec<String>,
}

/// Who requested or edited what the next run finds; empty if the head's core stores no such names.
pub fn of_next_run(head: &str) -> Vec<String> {
    serde_json::from_str::<Stored>(head).unwrap_or_default().shapers
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StoredItem {
    edited: Option<i64>,
    removed: Option<i64>,
}

/// The items that a person edited, by their stored definitions, each with the planVersion of the last edit. Those that are
/// removed are among them, as if they were edited last of all: their edits are not known.
pub fn edited_items<'a>(rows: impl IntoIterator<Item = &'a Row>) -> BTreeMap<ItemId, i64> {
    let edited = |row: &Row| {
        let item: StoredItem = serde_json::from_str(&row.body).unwrap_or_default();
        let version = item.edited.or(item.removed.map(|_| i64::MAX))?;
        Some((row.id.as_str().into(), version))
    };
    rows.into_iter().filter(|row| row.kind == RowKind::Item).filter_map(edited).collect()
}
